// Weights as real folders store them: tied under either name, with and without the "model." prefix, in any
// floating dtype; and what is missing is named.
#include "train/weights.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "support/temporary_folder.h"
#include "support/train_fixture.h"
#include "test_paths.h"

namespace snug {
namespace {

struct NamedTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<float> values;
};

std::vector<NamedTensor> tensors_of(const std::filesystem::path& folder) {
  TensorSource files = open_tensors(folder);
  std::vector<NamedTensor> tensors;
  for (const std::string& name : files.names()) {
    tensors.push_back({name, files.find(name).shape(), values_of(files.find(name))});
  }
  return tensors;
}

void write_tensors(const std::filesystem::path& file, const std::vector<NamedTensor>& tensors, DType dtype) {
  std::vector<SafetensorsWriter::Entry> entries;
  for (const NamedTensor& tensor : tensors) {
    entries.push_back({tensor.name, dtype, tensor.shape});
  }
  SafetensorsWriter writer(file, entries);
  for (const NamedTensor& tensor : tensors) {
    std::vector<std::byte> bytes(tensor.values.size() * static_cast<size_t>(size_of(dtype)));
    convert(DType::f32, tensor.values.data(), dtype, bytes.data(),
            static_cast<int64_t>(tensor.values.size()));
    writer.write(bytes);
  }
  writer.finish();
}

// The reference model mha_tied, stored in another way.
class StoredOtherwise : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::copy_file(kOriginal / "config.json", folder_ / "config.json");
    tensors_ = tensors_of(kOriginal);
  }

  double loss_of(const std::filesystem::path& folder) const {
    TrainFixture fixture(reference_recipe(folder));
    return fixture.runner.accumulate_gradients(
        {whole_batch(read_json(kOriginal / "batch.json")["sequences"])}, 0);
  }

  NamedTensor& tensor(const std::string& name) {
    auto found =
        std::find_if(tensors_.begin(), tensors_.end(), [&](const NamedTensor& t) { return t.name == name; });
    SNUG_CHECK(found != tensors_.end(), "no tensor " + name);
    return *found;
  }

  void write(DType dtype = DType::f32) const {
    write_tensors(folder_ / "model.safetensors", tensors_, dtype);
  }

  const std::filesystem::path kOriginal = reference_folder("mha_tied");
  TemporaryFolder folder_;
  std::vector<NamedTensor> tensors_;
};

TEST_F(StoredOtherwise, TiedMatrixUnderTheNameOfTheHead) {
  tensor("model.embed_tokens.weight").name = "lm_head.weight";
  write();
  EXPECT_EQ(loss_of(folder_.path()), loss_of(kOriginal));
}

TEST_F(StoredOtherwise, TiedMatrixUnderBothNames) {
  NamedTensor head = tensor("model.embed_tokens.weight");
  head.name = "lm_head.weight";
  tensors_.push_back(head);
  write();
  EXPECT_EQ(loss_of(folder_.path()), loss_of(kOriginal));
}

TEST_F(StoredOtherwise, WithoutThePrefix) {
  for (NamedTensor& stored : tensors_) {
    stored.name = stored.name.substr(std::string_view("model.").size());
  }
  write();
  EXPECT_EQ(loss_of(folder_.path()), loss_of(kOriginal));
}

TEST_F(StoredOtherwise, TensorsThatNobodyAskedForAreIgnored) {
  tensors_.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", {4}, {1, 2, 3, 4}});
  write();
  EXPECT_EQ(loss_of(folder_.path()), loss_of(kOriginal));
}

TEST_F(StoredOtherwise, InHalfPrecision) {
  for (DType dtype : {DType::bf16, DType::f16}) {
    write(dtype);
    double original = loss_of(kOriginal);
    EXPECT_NEAR(loss_of(folder_.path()), original, 0.01 * original);
    EXPECT_NE(loss_of(folder_.path()), original);
  }
}

TEST_F(StoredOtherwise, MissingTensorsAreNamed) {
  tensors_.erase(tensors_.begin());
  std::string missing = tensors_.front().name;
  tensors_.erase(tensors_.begin());
  write();
  try {
    loss_of(folder_.path());
    FAIL() << "accepted";
  } catch (const Error& error) {
    std::string text = error.what();
    EXPECT_NE(text.find(missing), std::string::npos) << text;
    EXPECT_NE(text.find("2 of the model's tensors are missing"), std::string::npos) << text;
  }
}

// Another format: a byte an element, which stands for (byte - 128) / 64. Element i of a tensor whose name has
// n letters is the byte (5 i + n) mod 256.
class CodedTensor : public SourceTensor {
 public:
  explicit CodedTensor(const StoredTensor& stored)
      : SourceTensor({.name = stored.name,
                      .dtype = DType::bf16,
                      .shape = stored.shape,
                      .stored_bytes = stored.elements,
                      .file = "codes"}) {}

  static float value(const std::string& name, int64_t element) {
    return static_cast<float>((5 * element + std::ssize(name)) % 256 - 128) / 64;
  }

  void read(int64_t first, int64_t count, DType to, void* target) const override {
    std::vector<float> values(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) {
      values[static_cast<size_t>(i)] = value(name(), first + i);
    }
    convert(DType::f32, values.data(), to, target, count);
  }

  void release() const override {}
};

TEST(TensorSource, WeightsOfAnyFormatAreLoaded) {
  TrainFixture fixture(reference_recipe(reference_folder("mha_tied")));
  std::vector<StoredTensor> tensors = stored_tensors(fixture.plan, Role::base_weights, true);
  TensorSource source;
  int64_t codes = 0;
  for (const StoredTensor& tensor : tensors) {
    source.add(std::make_unique<CodedTensor>(tensor));
    codes += tensor.elements;
  }
  require_tensors(fixture.plan, Role::base_weights, source, "codes");
  std::pair<int64_t, int64_t> loaded;
  load_tensors(fixture.executor, Role::base_weights, source, [&](int64_t done, int64_t total) {
    loaded = {done, total};
  });
  EXPECT_EQ(loaded, std::pair(codes, codes));
  for (const StoredTensor& tensor : tensors) {
    std::vector<float> values = fixture.tensor(Role::base_weights, tensor.name);
    for (int64_t i = 0; i < tensor.elements; ++i) {
      ASSERT_EQ(values[static_cast<size_t>(i)], CodedTensor::value(tensor.name, i))
          << tensor.name << " " << i;
    }
  }
}

TEST(SharedData, TrainedModelThatStoresOnlyTheHead) {
  std::filesystem::path folder =
      std::filesystem::path(SNUG_SOURCE_DIR) / "../shared/data/models/tinystories-656k";
  if (!std::filesystem::exists(folder)) {
    GTEST_SKIP() << folder << " is not there";
  }
  TrainFixture fixture(reference_recipe(folder));
  EXPECT_EQ(fixture.plan.parameters / 1000, 656);
}

}  // namespace
}  // namespace snug
