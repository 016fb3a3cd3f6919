// AdamW's update where moments, and perhaps parameters, are bf16 and rounded by chance: several neighbours at
// once, with the bits of backend/adamw_formula.h.
#pragma once

#include <cuda_pipeline_primitives.h>

#include <bit>

#include "backend/adamw_formula.h"
#include "backend/cuda/optimizer_lists.cuh"

namespace snug::cuda {

inline constexpr int kElementsAtOnce = 8;

struct RandomStream {
  uint64_t seed = 0;
  uint64_t stream = 0;
};

// philox (base/rng.h) for N counters in a row: they share a round's key, and their products overlap.
template <int N>
__device__ inline void philox_in_a_row(uint64_t key, uint64_t stream, uint64_t counter,
                                       uint32_t (&words)[N][4]) {
#pragma unroll
  for (int i = 0; i < N; ++i) {
    words[i][0] = static_cast<uint32_t>(counter + i);
    words[i][1] = static_cast<uint32_t>((counter + i) >> 32);
    words[i][2] = static_cast<uint32_t>(stream);
    words[i][3] = static_cast<uint32_t>(stream >> 32);
  }
  auto k0 = static_cast<uint32_t>(key);
  auto k1 = static_cast<uint32_t>(key >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      uint64_t p0 = 0xD2511F53ULL * words[i][0];
      uint64_t p1 = 0xCD9E8D57ULL * words[i][2];
      words[i][0] = static_cast<uint32_t>(p1 >> 32) ^ words[i][1] ^ k0;
      words[i][1] = static_cast<uint32_t>(p1);
      words[i][2] = static_cast<uint32_t>(p0 >> 32) ^ words[i][3] ^ k1;
      words[i][3] = static_cast<uint32_t>(p0);
    }
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
}

// Rounds a number to the upper half of the result, by 16 random bits.
struct AnyRounding {
  __device__ uint32_t operator()(float value, uint32_t random_bits) const {
    return static_cast<uint32_t>(stochastic_bf16_bits(value, random_bits)) << 16;
  }
};
// For numbers that are not larger than this. The lower half is not zero.
inline constexpr float kPlainSize = 0x1p127F;
struct PlainRounding {
  __device__ uint32_t operator()(float value, uint32_t random_bits) const {
    return __float_as_uint(value) + random_bits;
  }
};

// kElementsAtOnce neighbours as they lie in memory; bf16 two a word, so that the compiler moves them
// together.
template <typename T>
struct Pairs;

template <>
struct Pairs<float> {
  Vector<float, kElementsAtOnce> values;

  __device__ void store(void* data, int64_t i) const { cuda::store(static_cast<float*>(data) + i, values); }
  __device__ float at(int j) const { return values.at[j]; }
  template <typename Rounding>
  __device__ void put(int j, float a, uint32_t, float b, uint32_t, Rounding) {
    values.at[j] = a;
    values.at[j + 1] = b;
  }
};

template <>
struct Pairs<__nv_bfloat16> {
  Vector<uint32_t, kElementsAtOnce / 2> words;

  __device__ void store(void* data, int64_t i) const {
    cuda::store(static_cast<uint32_t*>(data) + i / 2, words);
  }
  __device__ float at(int j) const {
    return __uint_as_float(j % 2 == 0 ? words.at[j / 2] << 16 : words.at[j / 2] & 0xffff0000U);
  }
  // Elements j, which is even, and the next one.
  template <typename Rounding>
  __device__ void put(int j, float a, uint32_t a_bits, float b, uint32_t b_bits, Rounding rounding) {
    words.at[j / 2] = __byte_perm(rounding(a, a_bits), rounding(b, b_bits), 0x7632);
  }
};

struct UpdateEntry {
  GradientView gradient;
  void* parameter = nullptr;
  void* first = nullptr;
  void* second = nullptr;
  void* beside = nullptr;
  int64_t elements = 0;
  uint32_t first_block = 0;
  float weight_decay = 0;
};

// A thread's next elements, on their way to shared memory while it works on the present ones: an update with
// moments of bf16 has much to compute, and would else leave memory waiting. Each thread reads what it asked
// for itself, so nobody waits for others.
template <typename P>
class Ahead {
 public:
  // Chunks of 16 bytes: of gradients up to two, as they are fp32 or bf16.
  static constexpr int kFirst = 2;
  static constexpr int kParameter = 4;
  static constexpr int kParameterChunks = static_cast<int>(sizeof(Pairs<P>)) / 16;
  static constexpr int kChunks = kParameter + kParameterChunks;
  using Memory = uint4[2][kChunks][kUpdateThreads];

  __device__ explicit Ahead(Memory& memory) : memory_(memory) {}

  // Elements [i, i + kElementsAtOnce) for turn number `turn`.
  __device__ void start(const UpdateEntry& entry, int64_t i, int turn) {
    copy(entry.gradient.address(i), turn, 0);
    if (!entry.gradient.is_bf16) {
      copy(entry.gradient.address(i + kElementsAtOnce / 2), turn, 1);
    }
    copy(static_cast<const __nv_bfloat16*>(entry.first) + i, turn, kFirst);
    copy(static_cast<const __nv_bfloat16*>(entry.second) + i, turn, kFirst + 1);
#pragma unroll
    for (int chunk = 0; chunk < kParameterChunks; ++chunk) {
      copy(static_cast<const P*>(entry.parameter) + i + chunk * kElementsAtOnce / kParameterChunks, turn,
           kParameter + chunk);
    }
  }
  // When all that was started, but for the last turn, is there.
  __device__ static void wait() {
    __pipeline_wait_prior(1);
  }

  __device__ Vector<float, kElementsAtOnce> gradient(const UpdateEntry& entry, int turn) const {
    Vector<float, kElementsAtOnce> values;
    if (entry.gradient.is_bf16) {
      Pairs<__nv_bfloat16> pairs = read<Pairs<__nv_bfloat16>>(turn, 0);
#pragma unroll
      for (int j = 0; j < kElementsAtOnce; ++j) {
        values.at[j] = pairs.at(j);
      }
      return values;
    }
    return read<Vector<float, kElementsAtOnce>>(turn, 0);
  }
  __device__ Pairs<__nv_bfloat16> first(int turn) const {
    return read<Pairs<__nv_bfloat16>>(turn, kFirst);
  }
  __device__ Pairs<__nv_bfloat16> second(int turn) const {
    return read<Pairs<__nv_bfloat16>>(turn, kFirst + 1);
  }
  __device__ Pairs<P> parameter(int turn) const {
    return read<Pairs<P>>(turn, kParameter);
  }

 private:
  __device__ void copy(const void* from, int turn, int chunk) {
    __pipeline_memcpy_async(&memory_[turn % 2][chunk][threadIdx.x], from, 16);
  }
  template <typename Value>
  __device__ Value read(int turn, int chunk) const {
    constexpr int kCount = static_cast<int>(sizeof(Value)) / 16;
    Vector<uint4, kCount> chunks;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      chunks.at[i] = memory_[turn % 2][chunk + i][threadIdx.x];
    }
    return std::bit_cast<Value>(chunks);
  }

  Memory& memory_;
};

template <typename P>
struct Turn {
  const Ahead<P>& ahead;
  int number = 0;
};

// kElementsAtOnce elements from `i` on, a multiple of that. The integer units are what such an update waits
// for, so numbers that are neither special nor next to the largest one, which is all of them in a run that
// goes well, are rounded by a shorter way.
template <typename P, typename Copy>
__device__ inline void update_by_chance(const UpdateEntry& entry, int64_t i, const AdamwStep& step,
                                        float decay, const RandomStream& random, const Turn<P>& turn) {
  constexpr int N = kElementsAtOnce;
  uint32_t words[N / 2][4];
  philox_in_a_row(random.seed, random.stream, static_cast<uint64_t>(i / 2), words);
  Ahead<P>::wait();
  Vector<float, N> gradient = turn.ahead.gradient(entry, turn.number);
  Pairs<P> parameter = turn.ahead.parameter(turn.number);
  Pairs<__nv_bfloat16> first = turn.ahead.first(turn.number);
  Pairs<__nv_bfloat16> second = turn.ahead.second(turn.number);
  AdamwElement after[N];
  float size = 0;  // no number is larger; NaN if one is
#pragma unroll
  for (int j = 0; j < N; ++j) {
    after[j] = updated(step, decay, gradient.at[j], {parameter.at(j), first.at(j), second.at(j)});
    size += fabsf(after[j].first) + fabsf(after[j].second) + fabsf(after[j].parameter);
  }
  auto put_all = [&](auto rounding) {
#pragma unroll
    for (int j = 0; j < N; j += 2) {
      const AdamwElement& a = after[j];
      const AdamwElement& b = after[j + 1];
      const uint32_t(&random_bits)[4] = words[j / 2];
      first.put(j, a.first, random_bits[0] & 0xffffU, b.first, random_bits[2] & 0xffffU, rounding);
      second.put(j, a.second, random_bits[0] >> 16, b.second, random_bits[2] >> 16, rounding);
      parameter.put(j, a.parameter, random_bits[1] & 0xffffU, b.parameter, random_bits[3] & 0xffffU,
                    rounding);
    }
  };
  if (size < kPlainSize) {
    put_all(PlainRounding{});
  } else {
    put_all(AnyRounding{});
  }
  parameter.store(entry.parameter, i);
  first.store(entry.first, i);
  second.store(entry.second, i);
  if constexpr (!std::is_same_v<Copy, None>) {
    Vector<Copy, N> copy;
#pragma unroll
    for (int j = 0; j < N; ++j) {
      copy.at[j] = round_to<Copy>(after[j].parameter);
    }
    store<N>(static_cast<Copy*>(entry.beside) + i, copy);
  }
}

}  // namespace snug::cuda
