// AdamW with moments in 8 bits: bitsandbytes' CUDA kernel step for step (tools/make_state_references.py), and
// what must hold of codes, tensors within one buffer, and parameters in bf16.
#include "backend/adamw_8bit_formula.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/threads.h"
#include "io/tensor_source.h"
#include "support/run_ops.h"
#include "support/update_8bit.h"
#include "support/values.h"
#include "test_paths.h"

namespace snug {
namespace {

class Reference {
 public:
  bool has(const std::string& name) const {
    std::vector<std::string> names = files_.names();
    return std::find(names.begin(), names.end(), name) != names.end();
  }
  std::vector<float> floats(const std::string& name) const {
    const SourceTensor& tensor = files_.find(name);
    std::vector<float> values(static_cast<size_t>(tensor.elements()));
    tensor.read(0, tensor.elements(), DType::f32, values.data());
    return values;
  }
  std::vector<uint8_t> codes(const std::string& name) const {
    const SourceTensor& tensor = files_.find(name);
    std::vector<uint8_t> values(static_cast<size_t>(tensor.elements()));
    tensor.read(0, tensor.elements(), DType::u8, values.data());
    return values;
  }

 private:
  TensorSource files_ = open_tensors(SNUG_SOURCE_DIR "/tests/goldens/states8/adamw.safetensors");
};

TEST(Adamw8bit, TheMapsAreBitsandbytes) {
  Reference reference;
  for (bool is_signed : {true, false}) {
    DynamicMap map = dynamic_map(is_signed);
    EXPECT_EQ(std::vector<float>(map.begin(), map.end()),
              reference.floats(is_signed ? "first_map" : "second_map"));
  }
}

// Of all codes, those that are not the reference's. A block of zeros has any codes: they all mean zero.
struct Difference {
  size_t codes = 0;
  size_t all = 0;
};

void compare_moments(const Reference& reference, const std::string& name, const Moments8bit& got,
                     Difference& difference) {
  std::vector<uint8_t> codes = reference.codes(name);
  std::vector<float> scales = reference.floats(name + "_scales");
  ASSERT_EQ(got.codes.size(), codes.size());
  ASSERT_EQ(got.scales.size(), scales.size());
  for (size_t i = 0; i < codes.size(); ++i) {
    bool is_zero = scales[i / 256] == 0 && got.scales[i / 256] == 0;
    difference.codes += !is_zero && got.codes[i] != codes[i] ? 1 : 0;
    difference.all += 1;
  }
  // The kernel's multiplications and divisions are good to a few bits; a scale is the result of a handful.
  // Where the largest element of a block had another code once, its scale carries that on: one step of the
  // finest part of the map is 1/142 of a value.
  for (size_t i = 0; i < scales.size(); ++i) {
    EXPECT_NEAR(got.scales[i], scales[i], 0.01 * static_cast<double>(scales[i])) << name << " " << i;
  }
}

// References are of fp32 parameters. The kernel's power function errs by 1e-4 of 1 - beta2^t, and the root of
// that moves all parameters alike.
TEST(Adamw8bit, FollowsBitsandbytesStepForStep) {
  Reference reference;
  Program program = update_8bit_program(kReferenceTensors);
  OpRunner runner(program);
  begin_8bit_update(runner, program);
  for (size_t i = 0; i < kReferenceTensors.size(); ++i) {
    runner.set("p" + std::to_string(i), reference_values(i, 0));
  }
  double moved = 0;  // at most, by updates of the size of the learning rate
  for (int step = 1; step <= kReferenceSteps; ++step) {
    std::vector<float> scalars = reference_scalars(step);
    moved += static_cast<double>(scalars[0]);
    runner.set("scalars", scalars);
    for (size_t i = 0; i < kReferenceTensors.size(); ++i) {
      runner.set("g" + std::to_string(i), reference_values(i, step));
    }
    runner.run();
    Difference difference;
    for (size_t i = 0; i < kReferenceTensors.size(); ++i) {
      std::string number = std::to_string(i);
      std::string prefix = number + "." + std::to_string(step) + ".";
      for (const char* stem : {"m", "v"}) {
        std::string name = prefix + (stem[0] == 'm' ? "first" : "second");
        if (reference.has(name)) {
          const Buffer& buffer = program.buffer(program.find(stem + number));
          compare_moments(reference, name, moments_of(runner.bytes(stem + number), buffer, 0), difference);
        }
      }
      if (reference.has(prefix + "p")) {
        std::vector<float> wanted = reference.floats(prefix + "p");
        std::vector<float> got = runner.get("p" + number);
        size_t far = 0;
        for (size_t j = 0; j < wanted.size(); ++j) {
          double off = std::abs(static_cast<double>(got[j]) - static_cast<double>(wanted[j]));
          far += off > 3e-4 * moved + 1e-6 * std::abs(static_cast<double>(wanted[j])) ? 1 : 0;
        }
        EXPECT_LE(far, wanted.size() / 1000) << prefix;  // an element whose codes differ moves otherwise
      }
    }
    EXPECT_LE(difference.codes, difference.all / 1000) << "after step " << step;
    if (difference.all > 0) {
      std::printf("after step %d: %zu of %zu codes differ\n", step, difference.codes, difference.all);
    }
  }
}

// The nearest value, and of two that are as near the one with the even code.
TEST(Adamw8bit, CodesAreTheNearest) {
  for (bool is_signed : {true, false}) {
    DynamicMap map = dynamic_map(is_signed);
    std::array<float, kBoundNodes> bounds{};
    for (uint32_t node = 1; node < kBoundNodes; ++node) {
      bounds[node] = node_bound(map.data(), node);
    }
    for (size_t code = 0; code < map.size(); ++code) {
      EXPECT_EQ(dynamic_code(bounds.data(), map[code]), code);
      if (code + 1 < map.size()) {
        float middle = (map[code] + map[code + 1]) * 0.5F;
        size_t even = code % 2 == 0 ? code : code + 1;
        float infinity = std::numeric_limits<float>::infinity();
        EXPECT_EQ(dynamic_code(bounds.data(), middle), even);
        EXPECT_EQ(dynamic_code(bounds.data(), std::nextafter(middle, -infinity)), code);
        EXPECT_EQ(dynamic_code(bounds.data(), std::nextafter(middle, infinity)), code + 1);
      }
    }
    EXPECT_EQ(dynamic_code(bounds.data(), 1.1F), 255);
    EXPECT_EQ(dynamic_code(bounds.data(), -1.1F), 0);
  }
}

// log2 and 2^x with an error of their own, larger than that of a card's units.
template <int kThousandths>
struct RoughMath {
  static float log2(float x) { return std::log2(x) + 1e-7F * kThousandths; }
  static float exp2(float x) { return std::exp2(x) * (1 + 1e-9F * kThousandths); }
};

template <bool kHasSigns, typename Math>
void expect_calculated_codes(const std::vector<float>& numbers) {
  DynamicMap map = dynamic_map(kHasSigns);
  std::array<float, kBoundNodes> nodes{};
  for (uint32_t node = 1; node < kBoundNodes; ++node) {
    nodes[node] = node_bound(map.data(), node);
  }
  std::array<CodeBounds, kDynamicMapEntries> bounds;
  for (uint32_t code = 0; code < bounds.size(); ++code) {
    bounds[code] = bounds_of(map.data(), code);
  }
  for (float number : numbers) {
    uint32_t nearly = nearly_code<kHasSigns, Math>(number);
    ASSERT_LT(nearly, bounds.size());
    ASSERT_EQ(corrected_code(nearly, number, bounds[nearly]), dynamic_code(nodes.data(), number))
        << number << ", calculated: " << nearly;
  }
}

// What is calculated is what is found by searching: for every value, the numbers around every bound and
// around every decade's, and numbers of all sizes.
TEST(Adamw8bit, CalculatedCodesAreTheNearest) {
  std::vector<float> numbers = {0.0F, 1.0F, std::nextafter(1.0F, 2.0F), 1e-20F, 1e-38F, 1e-40F};
  auto add_around = [&](float middle) {
    float below = middle;
    float above = middle;
    for (int i = 0; i < 4; ++i) {
      numbers.insert(numbers.end(), {below, above});
      below = std::nextafter(below, 0.0F);
      above = std::nextafter(above, 1.0F);
    }
  };
  for (bool is_signed : {true, false}) {
    DynamicMap map = dynamic_map(is_signed);
    for (size_t code = 0; code + 1 < map.size(); ++code) {
      add_around(std::fabs(map[code]));
      add_around(std::fabs((map[code] + map[code + 1]) * 0.5F));
    }
  }
  for (int decade = 1; decade < 9; ++decade) {
    add_around(static_cast<float>(std::pow(10.0, -decade)));
  }
  for (float value : random_values(200000, 3)) {
    numbers.push_back(std::exp2(-std::fabs(value) * 10));
  }
  std::vector<float> with_signs = numbers;
  for (float number : numbers) {
    with_signs.push_back(-number);
  }
  expect_calculated_codes<true, RoughMath<0>>(with_signs);
  expect_calculated_codes<true, RoughMath<1000>>(with_signs);
  expect_calculated_codes<true, RoughMath<-1000>>(with_signs);
  expect_calculated_codes<false, RoughMath<0>>(numbers);
  expect_calculated_codes<false, RoughMath<1000>>(numbers);
  expect_calculated_codes<false, RoughMath<-1000>>(numbers);
}

TEST(Adamw8bit, FirstMomentsKeepTheirSign) {
  DynamicMap map = dynamic_map(true);
  uint8_t zero = kCodeOfZero;
  ASSERT_EQ(map[zero], 0.0F);
  EXPECT_EQ(with_sign_of(-1e-9F, zero), zero - 1);
  EXPECT_EQ(with_sign_of(1e-9F, zero), zero);
  EXPECT_EQ(with_sign_of(1e-9F, zero - 1), zero);
  EXPECT_EQ(with_sign_of(-0.5F, 20), 20);
}

// Every element of a block has random bits of its own.
TEST(Adamw8bit, RandomBitsAreUsedOnce) {
  std::vector<bool> used(3 * static_cast<size_t>(kStateBlock));
  for (int64_t i = 0; i < std::ssize(used); ++i) {
    RoundingPlace place = rounding_place(i);
    ASSERT_LT(place.half, kElementsACounter);
    size_t bits = static_cast<size_t>(place.counter) * kElementsACounter + place.half;
    ASSERT_LT(bits, used.size());
    EXPECT_FALSE(used[bits]);
    used[bits] = true;
  }
}

TEST(Adamw8bit, BytesAreThoseOfCodesAndScales) {
  Program program = update_8bit_program({{100, {64, 30, 64}}, {1, {4096}}});
  const Buffer& matrix = program.buffer(program.find("m0"));
  // 6400 codes with 25 scales, 3000 fp32 values, 6400 codes with 25 scales; pieces begin at multiples of 16.
  EXPECT_EQ(matrix.max_bytes(), 6400 + 12000 + 6400 + 2 * 112);
  CodeLayout layout = code_layout(matrix);
  EXPECT_EQ(layout.scale_bytes, 2 * 112);
  EXPECT_EQ(layout.map_bytes, 0);
  EXPECT_FALSE(layout.parts[0].plain);
  EXPECT_TRUE(layout.parts[1].plain);
  EXPECT_EQ(program.buffer(program.find("v1")).max_bytes(), 4096 + 4 * 16);
}

// Runs some steps with gradients of its own in every tensor.
template <typename Runner>
void run_steps(Runner& runner, const std::vector<UpdatedTensors>& tensors, int steps) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    runner.set("p" + std::to_string(i), random_values(tensors[i].elements(), 100 + i));
  }
  for (int step = 1; step <= steps; ++step) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      runner.set("g" + std::to_string(i),
                 random_values(tensors[i].elements(), 1000 * static_cast<size_t>(step) + i));
    }
    runner.set("scalars", reference_scalars(step));
    runner.set_ints("random", {42, step});
    runner.run();
  }
}

// A tensor has the same codes wherever it lies; q, k and v share a buffer.
TEST(Adamw8bit, TensorsOfOneBufferAreApart) {
  constexpr int64_t kColumns = 37;
  const std::vector<int64_t> rows = {130, 20, 171};
  const std::vector<UpdatedTensors> together = {{kColumns, rows, 0.1F}};
  Program program = update_8bit_program(together);
  OpRunner one(program);
  begin_8bit_update(one, program);
  run_steps(one, together, 3);
  int64_t begin = 0;
  for (size_t part = 0; part < rows.size(); ++part) {
    const std::vector<UpdatedTensors> alone = {{kColumns, {rows[part]}, 0.1F}};
    Program small = update_8bit_program(alone);
    OpRunner other(small);
    begin_8bit_update(other, small);
    auto piece = [&](const std::vector<float>& values) {
      auto first = values.begin() + begin * kColumns;
      return std::vector<float>(first, first + rows[part] * kColumns);
    };
    other.set("p0", piece(random_values(together[0].elements(), 100)));
    for (int step = 1; step <= 3; ++step) {
      other.set("g0", piece(random_values(together[0].elements(), 1000 * static_cast<size_t>(step))));
      other.set("scalars", reference_scalars(step));
      other.run();
    }
    EXPECT_EQ(other.get("p0"), piece(one.get("p0")));
    for (const char* name : {"m0", "v0"}) {
      Moments8bit wanted = moments_of(other.bytes(name), small.buffer(small.find(name)), 0);
      Moments8bit got = moments_of(one.bytes(name), program.buffer(program.find(name)), part);
      EXPECT_EQ(got.codes, wanted.codes);
      EXPECT_EQ(got.scales, wanted.scales);
      EXPECT_EQ(got.plain, wanted.plain);
    }
    begin += rows[part];
  }
}

TEST(Adamw8bit, ThreadsChangeNoBitButSeedAndStepDo) {
  const std::vector<UpdatedTensors> tensors = {{1, {3}}, {7, {9001, 3, 5000}}, {1, {257}}};
  Program program = update_8bit_program(tensors, DType::bf16);
  auto parameters_with = [&](int threads, int64_t seed, int64_t step) {
    set_thread_count(threads);
    OpRunner runner(program);
    begin_8bit_update(runner, program);
    run_steps(runner, tensors, 1);
    runner.set("g1", random_values(tensors[1].elements(), 5));
    runner.set_ints("random", {seed, step});
    runner.run();
    set_thread_count(0);
    return runner.get("p1");
  };
  std::vector<float> alone = parameters_with(1, 7, 3);
  EXPECT_EQ(alone, parameters_with(3, 7, 3));
  EXPECT_NE(alone, parameters_with(1, 8, 3));
  EXPECT_NE(alone, parameters_with(1, 7, 4));
}

// What plain rounding to bf16 would lose arrives in the mean: fp32 parameters say how much that is.
TEST(Adamw8bit, SmallUpdatesOfBf16ParametersArriveInTheMean) {
  const std::vector<UpdatedTensors> tensors = {{1, {8192}}};
  auto mean_after = [&](DType dtype) {
    Program program = update_8bit_program(tensors, dtype);
    OpRunner runner(program);
    begin_8bit_update(runner, program);
    runner.set("p0", std::vector<float>(8192, 1.0F));
    for (int step = 1; step <= 200; ++step) {
      runner.set("g0", std::vector<float>(8192, 0.01F));
      std::vector<float> scalars = reference_scalars(step);
      scalars[0] = 1e-4F;
      runner.set("scalars", scalars);
      runner.set_ints("random", {7, step});
      runner.run();
    }
    double sum = 0;
    for (float value : runner.get("p0")) {
      sum += static_cast<double>(value);
    }
    return sum / 8192;
  };
  double exact = mean_after(DType::f32);
  ASSERT_NEAR(exact, 0.98, 0.005);
  // An element strays by sqrt(200 * 1e-4 / 256) = 0.009, the mean of 8192 by 0.0001.
  EXPECT_NEAR(mean_after(DType::bf16), exact, 0.0005);
}

TEST(Adamw8bit, GradientsThatAreNotFiniteChangeNothing) {
  const std::vector<UpdatedTensors> tensors = {{1, {5000, 100}}};
  Program program = update_8bit_program(tensors);
  OpRunner runner(program);
  begin_8bit_update(runner, program);
  run_steps(runner, tensors, 2);
  std::vector<std::byte> first = runner.bytes("m0");
  std::vector<std::byte> second = runner.bytes("v0");
  std::vector<float> parameters = runner.get("p0");
  runner.set("g0", std::vector<float>(5100, std::numeric_limits<float>::infinity()));
  runner.set("norm", {std::numeric_limits<float>::infinity()});
  runner.run();
  EXPECT_EQ(runner.bytes("m0"), first);
  EXPECT_EQ(runner.bytes("v0"), second);
  EXPECT_EQ(runner.get("p0"), parameters);
}

}  // namespace
}  // namespace snug
