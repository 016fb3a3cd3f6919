// The update on the card is the CPU's to the bit, whatever format the states have.
#include <cmath>
#include <cstring>
#include <limits>

#include "cuda/on_both.h"
#include "support/adafactor_update.h"
#include "support/bf16_update.h"
#include "support/rounded_gradients.h"
#include "support/split_values.h"
#include "support/step_program.h"
#include "support/update_8bit.h"

namespace snug {
namespace {

// A CardRunner that takes floats. There is one at a time: they all begin at the start of the arena.
class Card : public CardRunner {
 public:
  explicit Card(const Program& program) : CardRunner(program), program_(program) {}

  void set(const std::string& name, const std::vector<float>& values) {
    DType dtype = program_.buffer(program_.find(name)).dtype();
    std::vector<std::byte> raw(values.size() * static_cast<size_t>(size_of(dtype)));
    convert(DType::f32, values.data(), dtype, raw.data(), static_cast<int64_t>(values.size()));
    set_bytes(name, raw.data(), static_cast<int64_t>(raw.size()));
  }
  void set_ints(const std::string& name, const std::vector<int64_t>& values) {
    set_bytes(name, values.data(), static_cast<int64_t>(values.size() * sizeof(int64_t)));
  }
  using CardRunner::set_bytes;
  void set_bytes(const std::string& name, const std::vector<std::byte>& raw) {
    set_bytes(name, raw.data(), static_cast<int64_t>(raw.size()));
  }

 private:
  Program program_;
};

// Both runners on the same program in its own dtypes (OnBoth would make the CPU's fp32).
struct Pair {
  explicit Pair(const Program& program) : extents(planned_extents(program)), cpu(program), card(program) {}

  void set(const std::string& name, const std::vector<float>& values) {
    cpu.set(name, values);
    card.set(name, values);
  }
  void set_ints(const std::string& name, const std::vector<int64_t>& values) {
    cpu.set_ints(name, values);
    card.set_ints(name, values);
  }
  void set_bytes(const std::string& name, const std::vector<std::byte>& raw) {
    cpu.set_bytes(name, raw);
    card.set_bytes(name, raw);
  }
  void set_double(const std::string& name, double value) { set_doubles(name, {value}); }
  void set_doubles(const std::string& name, const std::vector<double>& values) {
    cpu.set_doubles(name, values);
    card.set_bytes(name, values.data(), static_cast<int64_t>(values.size() * sizeof(double)));
  }
  void run() {
    cpu.run();
    card.run(extents);
  }
  void expect_equal(const std::string& name) const {
    std::vector<float> wanted = cpu.get(name);
    std::vector<float> got = card.get(name);
    ASSERT_EQ(got.size(), wanted.size());
    EXPECT_EQ(std::memcmp(got.data(), wanted.data(), 4 * got.size()), 0) << name;
  }

  // Of many bytes, it is enough to be told where they begin to differ.
  void expect_same_bytes(const std::string& name) const {
    std::vector<std::byte> wanted = cpu.bytes(name);
    std::vector<std::byte> got = card.bytes(name);
    ASSERT_EQ(got.size(), wanted.size()) << name;
    auto at = std::mismatch(got.begin(), got.end(), wanted.begin()).first;
    EXPECT_TRUE(at == got.end()) << name << ", byte " << at - got.begin() << " of " << got.size();
  }

  Extents extents;
  OpRunner cpu;
  Card card;
};

std::vector<int64_t> many_sizes() {
  std::vector<int64_t> sizes = {1, 20011, 8192, 4};
  for (int64_t i = 0; i < 600; ++i) {  // more than one launch takes
    sizes.push_back(1 + i % 37);
  }
  return sizes;
}

TEST(CudaUpdate, IsTheCpusToTheBit) {
  SKIP_WITHOUT_CARD();
  std::vector<int64_t> sizes = many_sizes();
  for (DType parameters : {DType::bf16, DType::f32}) {
    for (DType moments : {DType::bf16, DType::f32}) {
      if (parameters == DType::bf16 && moments == DType::f32) {
        continue;  // those have a rest
      }
      Program program = bf16_update_program(sizes, parameters, DType::f32, moments);
      for (bool rounded : {false, true}) {
        Pair pair(rounded ? with_rounded_gradients(program) : program);
        fill_bf16_update(pair, sizes);
        pair.set("p2", with_the_largest(random_values(sizes[2], 5)));
        for (int64_t step = 0; step < 3; ++step) {
          pair.set_ints("random", {42, step});
          pair.set("g1", random_values(sizes[1], 77 + static_cast<uint64_t>(step)));
          pair.run();
        }
        for (size_t i = 0; i < sizes.size(); i += 1 + i / 3) {
          for (const char* stem : {"p", "m", "v"}) {
            pair.expect_equal(stem + std::to_string(i));
          }
        }
      }
    }
  }
}

// Both halves of the numbers.
TEST(CudaUpdate, WithRestsItIsTheCpusToTheBit) {
  SKIP_WITHOUT_CARD();
  std::vector<int64_t> sizes = many_sizes();
  Program program = bf16_update_program(sizes, DType::bf16, DType::i16, DType::f32);
  for (bool rounded : {false, true}) {
    Pair pair(rounded ? with_rounded_gradients(program) : program);
    fill_bf16_update(pair, sizes);
    for (size_t i = 0; i < sizes.size(); ++i) {
      std::vector<float> start = random_values(sizes[i], 10 * i + 2);
      set_split(pair, "p" + std::to_string(i), "c" + std::to_string(i),
                i == 2 ? with_the_largest(start) : start);
    }
    for (int64_t step = 0; step < 4; ++step) {
      pair.set("g1", random_values(sizes[1], 77 + static_cast<uint64_t>(step)));
      pair.set("norm", {step == 2 ? std::numeric_limits<float>::infinity() : 1.0F});
      pair.run();
    }
    for (size_t i = 0; i < sizes.size(); i += 1 + i / 3) {
      for (const char* stem : {"p", "c", "m", "v"}) {
        pair.expect_same_bytes(stem + std::to_string(i));
      }
    }
  }
}

// fp16 keeps its fp32 master beside bf16 moments.
TEST(CudaUpdate, Fp16CopiesAreTheRoundedMaster) {
  SKIP_WITHOUT_CARD();
  const std::vector<int64_t> sizes = {5, 20011};
  OpRunner cpu(bf16_update_program(sizes, DType::f32));
  fill_bf16_update(cpu, sizes);
  cpu.run();
  Card card(bf16_update_program(sizes, DType::f32, DType::f16));
  fill_bf16_update(card, sizes);
  card.run({});
  for (const char* name : {"p0", "p1", "m1", "v1"}) {
    EXPECT_EQ(card.get(name), cpu.get(name)) << name;
  }
  EXPECT_EQ(card.get("c0"), rounded_to(card.get("p0"), DType::f16));
  EXPECT_EQ(card.get("c1"), rounded_to(card.get("p1"), DType::f16));
}

// Tensors of all kinds of sizes: aligned and not, with whole blocks and without, codes and fp32 moments, and
// more than one launch takes.
std::vector<UpdatedTensors> many_8bit_tensors() {
  std::vector<UpdatedTensors> tensors = {{1, {1}},    {64, {640, 64, 64}, 0.1F}, {37, {130, 20, 171}, 0.1F},
                                         {1, {4096}}, {3, {7000}, 0.01F},        {512, {100}}};
  for (int64_t i = 0; i < 400; ++i) {
    tensors.push_back({1, {1 + i % 37}});
  }
  return tensors;
}

TEST(CudaUpdate, EightBitsAreTheCpusToTheBit) {
  SKIP_WITHOUT_CARD();
  std::vector<UpdatedTensors> tensors = many_8bit_tensors();
  for (DType parameters : {DType::bf16, DType::f32}) {
    Program program = update_8bit_program(tensors, parameters);
    program = parameters == DType::bf16 ? with_rounded_gradients(program) : program;
    Pair pair(program);
    begin_8bit_update(pair, program);
    for (size_t i = 0; i < tensors.size(); ++i) {
      pair.set("p" + std::to_string(i), random_values(tensors[i].elements(), i));
    }
    for (int step = 1; step <= 4; ++step) {
      for (size_t i = 0; i < tensors.size(); ++i) {
        std::vector<float> gradients =
            random_values(tensors[i].elements(), 1000 * static_cast<size_t>(step) + i);
        for (size_t j = 0; j < gradients.size(); j += 2) {  // codes of all decades
          gradients[j] = std::ldexp(gradients[j], -static_cast<int>(j % 26));
        }
        pair.set("g" + std::to_string(i), gradients);
      }
      pair.set("norm", {step == 3 ? std::numeric_limits<float>::infinity() : 2.0F});
      pair.set("scalars", reference_scalars(step));
      pair.set_ints("random", {42, step});
      pair.run();
    }
    for (size_t i = 0; i < tensors.size(); i += 1 + i / 8) {
      for (const char* stem : {"p", "m", "v"}) {
        pair.expect_same_bytes(stem + std::to_string(i));
      }
    }
  }
}

TEST(CudaUpdate, EightBitsWithFp16Copies) {
  SKIP_WITHOUT_CARD();
  const std::vector<UpdatedTensors> tensors = {{1, {5}}, {13, {700, 300}}};
  Program program = update_8bit_program(tensors, DType::f32, DType::f16);
  Card card(program);
  begin_8bit_update(card, program);
  for (size_t i = 0; i < tensors.size(); ++i) {
    card.set("p" + std::to_string(i), random_values(tensors[i].elements(), i));
    card.set("g" + std::to_string(i), random_values(tensors[i].elements(), 10 + i));
  }
  card.set("scalars", reference_scalars(1));
  card.run({});
  EXPECT_NE(card.get("p1"), random_values(tensors[1].elements(), 1));
  EXPECT_EQ(card.get("c0"), rounded_to(card.get("p0"), DType::f16));
  EXPECT_EQ(card.get("c1"), rounded_to(card.get("p1"), DType::f16));
}

// Matrices of several tiles and chunks, whole ones and not, with rows that are short and very short; a long
// vector.
std::vector<UpdatedTensors> tiled_shapes() {
  return {{300, {5000}, 0.1F}, {0, {20011}}, {512, {130}}, {16, {3000, 17}}, {6, {50}}, {2048, {420}}};
}

// Sums have other orders on the card; they are made in fp64.
TEST(CudaUpdate, AdafactorIsTheCpus) {
  SKIP_WITHOUT_CARD();
  std::vector<UpdatedTensors> shapes = factored_shapes();
  for (const UpdatedTensors& one : tiled_shapes()) {
    shapes.push_back(one);
  }
  Program program = with_rounded_gradients(adafactor_program(shapes));
  Pair pair(program);
  begin_adafactor(pair, shapes);
  for (int step = 1; step <= 5; ++step) {
    pair.set("norm", {step == 4 ? std::numeric_limits<float>::infinity() : kAdafactorNorm});
    run_adafactor_step(pair, shapes, step);
  }
  for (size_t i = 0; i < shapes.size(); ++i) {
    for (const char* stem : {"p", "s"}) {
      std::string name = stem + std::to_string(i);
      std::vector<float> wanted = pair.cpu.get(name);
      std::vector<float> got = pair.card.get(name);
      for (size_t j = 0; j < wanted.size(); ++j) {
        ASSERT_NEAR(got[j], wanted[j], 1e-6 + 1e-6 * std::abs(static_cast<double>(wanted[j])))
            << name << " " << j;
      }
    }
  }
}

TEST(CudaUpdate, AdafactorRoundsByChanceAndCopies) {
  SKIP_WITHOUT_CARD();
  std::vector<UpdatedTensors> shapes = factored_shapes();
  for (const UpdatedTensors& one : tiled_shapes()) {
    shapes.push_back(one);
  }
  {
    Pair pair(adafactor_program(shapes, DType::bf16));
    begin_adafactor(pair, shapes);
    run_adafactor_step(pair, shapes, 1);
    for (size_t i = 0; i < shapes.size(); ++i) {
      std::vector<float> wanted = pair.cpu.get("p" + std::to_string(i));
      std::vector<float> got = pair.card.get("p" + std::to_string(i));
      size_t others = 0;  // a last bit may round otherwise
      for (size_t j = 0; j < wanted.size(); ++j) {
        ASSERT_NEAR(got[j], wanted[j], std::abs(static_cast<double>(wanted[j])) * 0x1p-7 + 1e-9);
        others += got[j] != wanted[j] ? 1 : 0;
      }
      EXPECT_LE(others, 1 + wanted.size() / 1000);
    }
  }
  Card card(adafactor_program(shapes, DType::f32, DType::f16));
  begin_adafactor(card, shapes);
  for (size_t i = 0; i < shapes.size(); ++i) {
    card.set("g" + std::to_string(i), factored_gradient(shapes[i], i, 1));
  }
  card.set_ints("clock", {0, 0, 1, 1});
  card.set_ints("random", {42, 1});
  card.run({});
  EXPECT_NE(card.get("p0"), random_values(shapes[0].elements(), 0));
  EXPECT_EQ(card.get("c0"), rounded_to(card.get("p0"), DType::f16));
  EXPECT_EQ(card.get("c1"), rounded_to(card.get("p1"), DType::f16));
}

// On the card they are what its fp32 parameters become, to the bit; the upper half is the nearest number.
TEST(CudaUpdate, AdafactorWithRests) {
  SKIP_WITHOUT_CARD();
  std::vector<UpdatedTensors> shapes = factored_shapes();
  shapes.push_back({0, {20011}});
  auto run = [&](Card& card) {
    for (int step = 1; step <= 4; ++step) {
      card.set("norm", {step == 3 ? std::numeric_limits<float>::infinity() : kAdafactorNorm});
      for (size_t i = 0; i < shapes.size(); ++i) {
        card.set("g" + std::to_string(i), factored_gradient(shapes[i], i, step));
      }
      card.set_ints("clock", {0, 0, step, step});
      card.set_ints("random", {42, step});
      card.run({});
    }
  };
  std::vector<std::vector<float>> wanted;
  {
    Card whole(adafactor_program(shapes));
    begin_adafactor(whole, shapes);
    run(whole);
    for (size_t i = 0; i < shapes.size(); ++i) {
      wanted.push_back(whole.get("p" + std::to_string(i)));
    }
  }
  Card split(adafactor_program(shapes, DType::bf16, DType::i16));
  begin_adafactor(split, shapes);
  for (size_t i = 0; i < shapes.size(); ++i) {
    set_split(split, "p" + std::to_string(i), "c" + std::to_string(i),
              random_values(shapes[i].elements(), i));
  }
  run(split);
  for (size_t i = 0; i < shapes.size(); ++i) {
    std::string number = std::to_string(i);
    EXPECT_EQ(get_joined(split, "p" + number, "c" + number), wanted[i]) << number;
    for (size_t j = 0; j < wanted[i].size(); ++j) {
      ASSERT_EQ(to_bf16(split.get("p" + number)[j]).bits, split_float(wanted[i][j]).bf16_bits)
          << number << " " << j;
    }
  }
}

TEST(CudaUpdate, TheClockIsTheCpus) {
  SKIP_WITHOUT_CARD();
  Program program = step_program(8, {.scales_loss = true});
  Pair pair(program);
  pair.set_ints("clock", {0, 0, 0, 0});
  pair.set_doubles("rates", {1e-3, 9e-4, 8e-4, 7e-4, 6e-4, 5e-4, 4e-4, 3e-4});
  pair.set("share", {1.0F / 3});
  for (int step = 0; step < 8; ++step) {
    pair.set_double("loss_sum", 1.0 / (step + 3));
    pair.set("norm",
             {step % 3 == 1 ? std::numeric_limits<float>::quiet_NaN() : 1.5F * static_cast<float>(step)});
    pair.run();
    pair.expect_equal("scale");
    pair.expect_equal("scalars");
  }
  std::vector<std::byte> raw = pair.card.bytes("clock");
  std::vector<int64_t> got(4);
  std::memcpy(got.data(), raw.data(), raw.size());
  EXPECT_EQ(got, pair.cpu.get_ints("clock"));
  EXPECT_EQ(got[2], 5);  // steps 1, 4 and 7 were skipped
  EXPECT_EQ(got[3], 8);
  EXPECT_EQ(pair.card.get("scalars")[0], 5e-4F);  // of the sixth update, the last step's, which was skipped
  std::vector<float> rows = pair.card.get("history");
  std::vector<float> wanted = pair.cpu.get("history");
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_TRUE(rows[i] == wanted[i] || (std::isnan(rows[i]) && std::isnan(wanted[i]))) << i;
  }
}

}  // namespace
}  // namespace snug
