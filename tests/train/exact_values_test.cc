// bf16 parameters that are the upper halves of fp32 numbers: those numbers are trained, saved, loaded and
// gone on with, to the bit.
#include <gtest/gtest.h>

#include "backend/adamw_formula.h"
#include "base/error.h"
#include "data/batches/synthetic.h"
#include "plan/saving.h"
#include "program/names.h"
#include "support/temporary_folder.h"
#include "support/train_fixture.h"
#include "train/output.h"
#include "train/snapshot.h"
#include "train/state.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

Recipe recipe_with(bool lora, Optimizer optimizer = Optimizer::adamw) {
  Recipe recipe = reference_recipe(reference_folder("gqa_untied"));
  recipe.model.dtype = DType::bf16;
  recipe.training.optim = optimizer;
  recipe.training.learning_rate = 2e-3;
  recipe.training.lr_scheduler_type = Schedule::constant;
  recipe.training.weight_decay = 0.125;
  recipe.training.max_grad_norm = 0;
  if (lora) {
    recipe.lora = LoraSection{.r = 4};
  }
  return recipe;
}

Role trained_role(const TrainFixture& fixture) {
  return fixture.recipe.lora ? Role::adapters : Role::base_weights;
}

Batch batch_of(const TrainFixture& fixture, int64_t step) {
  return random_batch({4, 16, fixture.spec.vocabulary}, 5 + static_cast<uint64_t>(step % 3));
}

double run_step(TrainFixture& fixture, int64_t step) {
  return fixture.runner.run_step({batch_of(fixture, step)}, step, 100).loss;
}

std::vector<std::byte> bytes_in(TrainFixture& fixture, const std::string& buffer) {
  Tensor tensor = fixture.executor.tensor(kLoadPhase, buffer);
  std::vector<std::byte> raw(static_cast<size_t>(tensor.bytes()));
  fixture.backend.download(raw.data(), tensor.data, std::ssize(raw));
  return raw;
}

void expect_same_state(TrainFixture& a, TrainFixture& b) {
  for (const Buffer* buffer : state_buffers(a.plan)) {
    EXPECT_EQ(bytes_in(a, buffer->name), bytes_in(b, buffer->name)) << buffer->name;
  }
}

// ---- training ----

// One tensor's parameters and moments in fp32, as arrays.
struct Fp32Tensor {
  std::vector<float> parameter;
  std::vector<float> first;
  std::vector<float> second;

  explicit Fp32Tensor(std::vector<float> start)
      : parameter(std::move(start)), first(parameter.size()), second(parameter.size()) {}

  void move(const std::vector<float>& gradient, const TrainingSection& training, bool is_decayed,
            int64_t updates) {
    AdamwAttributes attributes{.beta1 = training.adam_beta1,
                               .beta2 = training.adam_beta2,
                               .epsilon = static_cast<float>(training.adam_epsilon),
                               .weight_decay = {}};
    StepScalars scalars{.learning_rate = static_cast<float>(training.learning_rate),
                        .bias_correction1 = bias_correction(training.adam_beta1, updates),
                        .bias_correction2 = bias_correction(training.adam_beta2, updates)};
    AdamwStep step = make_step(rates_of(attributes), scalars, 1.0F);
    float decay =
        decay_factor(scalars.learning_rate, is_decayed ? static_cast<float>(training.weight_decay) : 0.0F);
    for (size_t i = 0; i < parameter.size(); ++i) {
      AdamwElement after = updated(step, decay, gradient[i], {parameter[i], first[i], second[i]});
      parameter[i] = after.parameter;
      first[i] = after.first;
      second[i] = after.second;
    }
  }
};

// The nearest bf16 number; of two the one further from zero.
uint16_t nearest_bf16(float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  uint32_t above = (bits & 0xffffU) >= 0x8000U ? 1 : 0;
  return static_cast<uint16_t>((bits >> 16) + above);
}

// Puts what fp32 masters are rounded to where the model computes with it.
void set_copies(TrainFixture& fixture, const StoredTensor& stored, const std::vector<float>& masters) {
  std::vector<uint16_t> copies;
  for (float value : masters) {
    copies.push_back(nearest_bf16(value));
  }
  auto* target = fixture.executor.tensor(kLoadPhase, stored.buffer).as<uint16_t>() + stored.first_element;
  fixture.backend.upload(target, copies.data(), bytes_of(DType::bf16, stored.elements));
  fixture.backend.synchronize();
}

// Beside a run, one whose update is made here, from fp32 masters: the same losses and the same numbers.
TEST(ExactValues, TrainingIsThatOfFp32Masters) {
  for (bool lora : {false, true}) {
    SCOPED_TRACE(lora ? "adapters" : "all weights");
    TrainFixture run(recipe_with(lora));
    TrainFixture by_hand(recipe_with(lora));
    Role role = trained_role(run);
    std::vector<StoredTensor> tensors = stored_tensors(run.plan, role, true);
    std::vector<Fp32Tensor> masters;
    for (const StoredTensor& stored : tensors) {
      ASSERT_EQ(stored.dtype, DType::f32);
      ASSERT_EQ(stored.rests, rest_name(stored.buffer));
      masters.emplace_back(by_hand.tensor(role, stored.name));
    }
    for (int64_t step = 0; step < 6; ++step) {
      double loss = by_hand.runner.accumulate_gradients({batch_of(by_hand, step)}, step);
      EXPECT_EQ(run_step(run, step), loss) << step;
      for (size_t i = 0; i < tensors.size(); ++i) {
        masters[i].move(by_hand.gradient(role, tensors[i].name), run.recipe.training,
                        tensors[i].shape.size() == 2, step + 1);
        set_copies(by_hand, tensors[i], masters[i].parameter);
      }
    }
    for (size_t i = 0; i < tensors.size(); ++i) {
      EXPECT_EQ(run.tensor(role, tensors[i].name), masters[i].parameter) << tensors[i].name;
    }
  }
}

// ---- files ----

// A model in fp32 that is trained in bf16 begins with the file's own numbers.
TEST(ExactValues, WeightsOfFp32FilesAreKeptExactly) {
  TrainFixture fixture(recipe_with(false));
  TensorSource files = open_tensors(fixture.recipe.model.path);
  int64_t with_rest = 0;
  for (const StoredTensor& stored : stored_tensors(fixture.plan, Role::base_weights, true)) {
    std::vector<float> wanted = values_of(files.find(stored.name));
    EXPECT_EQ(fixture.tensor(Role::base_weights, stored.name), wanted) << stored.name;
    with_rest += std::count_if(wanted.begin(), wanted.end(),
                               [](float value) { return to_float(to_bf16(value)) != value; });
  }
  EXPECT_GT(with_rest, 1000);
}

TEST(ExactValues, AdaptersAreSavedInFp32AndComeBack) {
  TemporaryFolder folder;
  Recipe recipe = recipe_with(true);
  TrainFixture trained(recipe);
  for (int64_t step = 0; step < 3; ++step) {
    run_step(trained, step);
  }
  save_adapter(trained.reader, recipe, trained.spec, folder.path());
  TensorSource saved = open_tensors(folder / "adapter_model.safetensors");
  TrainFixture again(recipe, folder.path());
  for (const StoredTensor& stored : stored_tensors(trained.plan, Role::adapters, true)) {
    EXPECT_EQ(saved.find(stored.name).dtype(), DType::f32);
    EXPECT_EQ(values_of(saved.find(stored.name)), trained.tensor(Role::adapters, stored.name));
    for (const std::string& buffer : {stored.buffer, stored.rests}) {
      EXPECT_EQ(bytes_in(again, buffer), bytes_in(trained, buffer)) << buffer;
    }
  }
}

TEST(ExactValues, ACopyOfTheStateHasThemToo) {
  TrainFixture fixture(recipe_with(true));
  run_step(fixture, 0);
  ASSERT_TRUE(has_snapshot(fixture.plan));
  Snapshot copy(fixture.executor);
  copy.take();
  for (const StoredTensor& stored : stored_tensors(fixture.plan, Role::adapters, true)) {
    std::vector<std::byte> bytes;
    read_tensor(copy, stored, [&](std::span<const std::byte> piece) {
      bytes.insert(bytes.end(), piece.begin(), piece.end());
    });
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    EXPECT_EQ(values, fixture.tensor(Role::adapters, stored.name)) << stored.name;
  }
}

// ---- going on ----

StateScope scope_of(const TrainFixture& fixture) {
  return fixture.recipe.lora ? StateScope::everything : StateScope::beside_model_files;
}

// A fresh run with the state of one that has come further.
std::unique_ptr<TrainFixture> gone_on(TrainFixture& trained, const fs::path& folder, const fs::path& state) {
  auto fixture = std::make_unique<TrainFixture>(trained.recipe);
  if (!trained.recipe.lora) {
    save_model(trained.reader, trained.recipe.model.path, folder);
    load_tensors(fixture->executor, Role::base_weights, open_tensors(folder));
  }
  load_state(fixture->executor, scope_of(trained), state);
  return fixture;
}

// The model's files hold the upper halves of all weights, the state their rests.
TEST(ExactValues, ARunGoesOnToTheBit) {
  for (bool lora : {false, true}) {
    for (Optimizer optimizer : {Optimizer::adamw, Optimizer::adafactor}) {
      TemporaryFolder folder;
      TrainFixture trained(recipe_with(lora, optimizer));
      run_step(trained, 0);
      run_step(trained, 1);
      save_state(trained.reader, scope_of(trained), folder / "state.safetensors");
      auto again = gone_on(trained, folder.path(), folder / "state.safetensors");
      expect_same_state(trained, *again);
      again->runner.go_on(2, 2);
      EXPECT_EQ(run_step(*again, 2), run_step(trained, 2));
      expect_same_state(trained, *again);
    }
  }
}

// The state as earlier versions wrote it: masters in fp32, and copies that are rounded to even.
void write_with_masters(TrainFixture& trained, const fs::path& state, const fs::path& target) {
  TensorSource source = open_tensors(state);
  std::vector<SafetensorsWriter::Entry> entries;
  std::vector<std::vector<std::byte>> contents;
  auto master_of = [&](const std::string& parameter) {
    std::vector<std::byte> bytes;
    int64_t elements = trained.executor.tensor(kLoadPhase, parameter).elements();
    trained.reader.read_joined(
        {.upper = parameter, .rests = rest_name(parameter)}, 0, elements,
        [&](std::span<const std::byte> piece) { bytes.insert(bytes.end(), piece.begin(), piece.end()); });
    return bytes;
  };
  for (const std::string& name : source.names()) {
    const SourceTensor& tensor = source.find(name);
    bool is_rest = name.ends_with(rest_name(""));
    std::string parameter = is_rest ? name.substr(0, name.size() - rest_name("").size()) : name;
    std::vector<std::byte> bytes(static_cast<size_t>(bytes_of(tensor.dtype(), tensor.elements())));
    tensor.read(0, tensor.elements(), tensor.dtype(), bytes.data());
    if (is_rest) {
      bytes = master_of(parameter);
    } else if (source.contains(rest_name(name))) {
      std::vector<std::byte> master = master_of(name);
      convert(DType::f32, master.data(), DType::bf16, bytes.data(), tensor.elements());
    }
    entries.push_back(
        {is_rest ? master_name(parameter) : name, is_rest ? DType::f32 : tensor.dtype(), tensor.shape()});
    contents.push_back(std::move(bytes));
  }
  SafetensorsWriter writer(target, entries);
  for (const std::vector<std::byte>& bytes : contents) {
    writer.write(bytes);
  }
  writer.finish();
}

TEST(ExactValues, CheckpointsWithMastersAreGoneOnWith) {
  for (bool lora : {false, true}) {
    TemporaryFolder folder;
    TrainFixture trained(recipe_with(lora));
    run_step(trained, 0);
    run_step(trained, 1);
    save_state(trained.reader, scope_of(trained), folder / "new.safetensors");
    write_with_masters(trained, folder / "new.safetensors", folder / "state.safetensors");
    TensorSource old = open_tensors(folder / "state.safetensors");
    std::vector<std::string> names = old.names();
    EXPECT_TRUE(
        std::any_of(names.begin(), names.end(), [](auto& name) { return name.ends_with(".master"); }));
    EXPECT_TRUE(std::none_of(names.begin(), names.end(), [](auto& name) { return name.ends_with(".rest"); }));
    fs::remove(folder / "new.safetensors");
    auto again = gone_on(trained, folder.path(), folder / "state.safetensors");
    expect_same_state(trained, *again);
    again->runner.go_on(2, 2);
    EXPECT_EQ(run_step(*again, 2), run_step(trained, 2));
  }
}

TEST(ExactValues, AMasterOfAnotherModelIsRefused) {
  TemporaryFolder folder;
  TrainFixture trained(recipe_with(true));
  save_state(trained.reader, StateScope::everything, folder / "new.safetensors");
  write_with_masters(trained, folder / "new.safetensors", folder / "state.safetensors");
  Recipe larger = recipe_with(true);
  larger.lora->r = 8;
  TrainFixture other(larger);
  try {
    load_state(other.executor, StateScope::everything, folder / "state.safetensors");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("but this run makes it"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace snug
