// Hopper's products by warpgroups of four warps, whose operands lie in shared memory, the left one perhaps in
// registers. A warp holds 16 rows of the sums as multiply_add does. Operands in shared memory are told by
// descriptors (attention/hopper.cuh); `add`: 0 makes new sums.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "backend/cuda/instructions/hopper.cuh"

namespace snug::cuda {

#ifdef SNUG_HOPPER

__device__ inline void fence_products() {
  asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
}
__device__ inline void commit_products() {
  asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
}
// Waits until at most kPending groups of products are under way.
template <int kPending>
__device__ inline void wait_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(kPending) : "memory");
}
// Keeps the compiler from reading sums before the wait above.
template <int kBlocks>
__device__ inline void settle(float (&sums)[1][kBlocks][4]) {
#pragma unroll
  for (int n = 0; n < kBlocks; ++n) {
    asm volatile(""
                 : "+f"(sums[0][n][0]), "+f"(sums[0][n][1]), "+f"(sums[0][n][2]),
                   "+f"(sums[0][n][3])::"memory");
  }
}

#define SNUG_SUMS1(d, n) "+f"(d[n][0]), "+f"(d[n][1]), "+f"(d[n][2]), "+f"(d[n][3])
#define SNUG_SUMS2(d, n) SNUG_SUMS1(d, n), SNUG_SUMS1(d, n + 1)
#define SNUG_SUMS4(d, n) SNUG_SUMS2(d, n), SNUG_SUMS2(d, n + 2)
#define SNUG_SUMS8(d, n) SNUG_SUMS4(d, n), SNUG_SUMS4(d, n + 4)
#define SNUG_SUMS16(d) SNUG_SUMS8(d, 0), SNUG_SUMS8(d, 8)
#define SNUG_NAMES32                                                       \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define SNUG_NAMES64                                                            \
  SNUG_NAMES32                                                                  \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46" \
  ", %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define SNUG_NAMES88                                                                        \
  SNUG_NAMES64                                                                              \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, " \
  "%81, %82, %83, %84, %85, %86, %87"
#define SNUG_NAMES96 SNUG_NAMES88 ", %88, %89, %90, %91, %92, %93, %94, %95"

// Both operands in shared memory. `a_b` and `add_at` are the places of the operands behind the sums;
// `turned`: "1" for an operand that lies by columns.
#define SNUG_PRODUCT(type, columns, names, a_b, add_at, turned, ...)                                        \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " add_at ", 0;\nwgmma.mma_async.sync.aligned.m64n" columns \
               "k16.f32." type "." type " {" names "}, " a_b ", p, 1, 1, " turned ";\n}\n"                  \
               : __VA_ARGS__                                                                                \
               : "l"(a), "l"(b), "r"(add))
#define SNUG_PRODUCT_OF(T, ...)              \
  if constexpr (std::is_same_v<T, __half>) { \
    SNUG_PRODUCT("f16", __VA_ARGS__);        \
  } else {                                   \
    SNUG_PRODUCT("bf16", __VA_ARGS__);       \
  }
#define SNUG_PRODUCT_64(turned) \
  SNUG_PRODUCT_OF(T, "64", SNUG_NAMES32, "%32, %33", "%34", turned, SNUG_SUMS8(d, 0))
#define SNUG_PRODUCT_128(turned) \
  SNUG_PRODUCT_OF(T, "128", SNUG_NAMES64, "%64, %65", "%66", turned, SNUG_SUMS16(d))
#define SNUG_PRODUCT_176(turned)                                                                        \
  SNUG_PRODUCT_OF(T, "176", SNUG_NAMES88, "%88, %89", "%90", turned, SNUG_SUMS16(d), SNUG_SUMS4(d, 16), \
                  SNUG_SUMS2(d, 20))
#define SNUG_PRODUCT_192(turned) \
  SNUG_PRODUCT_OF(T, "192", SNUG_NAMES96, "%96, %97", "%98", turned, SNUG_SUMS16(d), SNUG_SUMS8(d, 16))

// d[64, 8 * kBlocks] (+)= a[64, 16] b[8 * kBlocks, 16]^T.
template <typename T, int kBlocks>
__device__ inline void product_of_rows(float (&d)[kBlocks][4], uint64_t a, uint64_t b, int add) {
  if constexpr (kBlocks == 8) {
    SNUG_PRODUCT_64("0, 0")
  } else if constexpr (kBlocks == 16) {
    SNUG_PRODUCT_128("0, 0")
  } else if constexpr (kBlocks == 22) {
    SNUG_PRODUCT_176("0, 0")
  } else {
    static_assert(kBlocks == 24);
    SNUG_PRODUCT_192("0, 0")
  }
}
// d[64, 8 * kBlocks] (+)= a[64, 16] b[16, 8 * kBlocks].
template <typename T, int kBlocks>
__device__ inline void product_rows_columns(float (&d)[kBlocks][4], uint64_t a, uint64_t b, int add) {
  if constexpr (kBlocks == 8) {
    SNUG_PRODUCT_64("0, 1")
  } else if constexpr (kBlocks == 16) {
    SNUG_PRODUCT_128("0, 1")
  } else {
    static_assert(kBlocks == 24);
    SNUG_PRODUCT_192("0, 1")
  }
}
// d[64, 8 * kBlocks] (+)= a[16, 64]^T b[16, 8 * kBlocks].
template <typename T, int kBlocks>
__device__ inline void product_of_columns(float (&d)[kBlocks][4], uint64_t a, uint64_t b, int add) {
  if constexpr (kBlocks == 8) {
    SNUG_PRODUCT_64("1, 1")
  } else {
    static_assert(kBlocks == 16);
    SNUG_PRODUCT_128("1, 1")
  }
}

// d[64, 8 * kBlocks] += a[64, 16] b[16, 8 * kBlocks], a in registers.
#define SNUG_PRODUCT_WITH_COLUMNS(type, columns, names, a_b, ...)                                        \
  asm volatile("wgmma.mma_async.sync.aligned.m64n" columns "k16.f32." type "." type " {" names "}, " a_b \
               ", 1, 1, 1, 1;\n"                                                                         \
               : __VA_ARGS__                                                                             \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))
template <typename T, int kBlocks>
__device__ inline void product_with_columns(float (&d)[kBlocks][4], const uint32_t (&a)[4], uint64_t b) {
  constexpr bool kIsHalf = std::is_same_v<T, __half>;
  if constexpr (kBlocks == 8 && kIsHalf) {
    SNUG_PRODUCT_WITH_COLUMNS("f16", "64", SNUG_NAMES32, "{%32, %33, %34, %35}, %36", SNUG_SUMS8(d, 0));
  } else if constexpr (kBlocks == 8) {
    SNUG_PRODUCT_WITH_COLUMNS("bf16", "64", SNUG_NAMES32, "{%32, %33, %34, %35}, %36", SNUG_SUMS8(d, 0));
  } else if constexpr (kIsHalf) {
    SNUG_PRODUCT_WITH_COLUMNS("f16", "128", SNUG_NAMES64, "{%64, %65, %66, %67}, %68", SNUG_SUMS16(d));
  } else {
    static_assert(kBlocks == 16);
    SNUG_PRODUCT_WITH_COLUMNS("bf16", "128", SNUG_NAMES64, "{%64, %65, %66, %67}, %68", SNUG_SUMS16(d));
  }
}

// The first product of a sum, which makes it: its registers are free until then.
#define SNUG_NEW_SUMS1(d, n) "=f"(d[n][0]), "=f"(d[n][1]), "=f"(d[n][2]), "=f"(d[n][3])
#define SNUG_NEW_SUMS4(d, n) \
  SNUG_NEW_SUMS1(d, n), SNUG_NEW_SUMS1(d, n + 1), SNUG_NEW_SUMS1(d, n + 2), SNUG_NEW_SUMS1(d, n + 3)
#define SNUG_NEW_SUMS8(d, n) SNUG_NEW_SUMS4(d, n), SNUG_NEW_SUMS4(d, n + 4)
#define SNUG_FIRST_PRODUCT(type, columns, names, a_b, turned, ...)                                 \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 0, 0;\nwgmma.mma_async.sync.aligned.m64n" columns \
               "k16.f32." type "." type " {" names "}, " a_b ", p, 1, 1, " turned ";\n}\n"         \
               : __VA_ARGS__                                                                       \
               : "l"(a), "l"(b))
#define SNUG_FIRST_PRODUCT_OF(T, ...)        \
  if constexpr (std::is_same_v<T, __half>) { \
    SNUG_FIRST_PRODUCT("f16", __VA_ARGS__);  \
  } else {                                   \
    SNUG_FIRST_PRODUCT("bf16", __VA_ARGS__); \
  }
template <typename T, int kBlocks>
__device__ inline void first_product_of_rows(float (&d)[kBlocks][4], uint64_t a, uint64_t b) {
  if constexpr (kBlocks == 8) {
    SNUG_FIRST_PRODUCT_OF(T, "64", SNUG_NAMES32, "%32, %33", "0, 0", SNUG_NEW_SUMS8(d, 0))
  } else {
    static_assert(kBlocks == 16);
    SNUG_FIRST_PRODUCT_OF(T, "128", SNUG_NAMES64, "%64, %65", "0, 0", SNUG_NEW_SUMS8(d, 0),
                          SNUG_NEW_SUMS8(d, 8))
  }
}
template <typename T>
__device__ inline void first_product_of_columns(float (&d)[8][4], uint64_t a, uint64_t b) {
  SNUG_FIRST_PRODUCT_OF(T, "64", SNUG_NAMES32, "%32, %33", "1, 1", SNUG_NEW_SUMS8(d, 0))
}

#undef SNUG_SUMS1
#undef SNUG_SUMS2
#undef SNUG_SUMS4
#undef SNUG_SUMS8
#undef SNUG_SUMS16
#undef SNUG_NAMES32
#undef SNUG_NAMES64
#undef SNUG_NAMES88
#undef SNUG_NAMES96
#undef SNUG_PRODUCT
#undef SNUG_PRODUCT_OF
#undef SNUG_PRODUCT_64
#undef SNUG_PRODUCT_128
#undef SNUG_PRODUCT_176
#undef SNUG_PRODUCT_192
#undef SNUG_PRODUCT_WITH_COLUMNS
#undef SNUG_NEW_SUMS1
#undef SNUG_NEW_SUMS4
#undef SNUG_NEW_SUMS8
#undef SNUG_FIRST_PRODUCT
#undef SNUG_FIRST_PRODUCT_OF

#endif  // SNUG_HOPPER

}  // namespace snug::cuda
