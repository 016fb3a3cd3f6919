// Kernels that work row by row or element by element, against the CPU, per dtype and at odd sizes.
#include "cuda/on_both.h"

namespace snug {
namespace {

struct Case {
  int64_t rows;
  int64_t width;
  DType dtype;
  DType weight;
};

std::string name_of_case(const testing::TestParamInfo<Case>& info) {
  const Case& c = info.param;
  return std::string(name_of(c.dtype)) + "_" + std::string(name_of(c.weight)) + "_" + std::to_string(c.rows) +
         "x" + std::to_string(c.width);
}

class CudaRows : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override { SKIP_WITHOUT_CARD(); }
  int64_t rows() const { return GetParam().rows; }
  int64_t width() const { return GetParam().width; }
  DType dtype() const { return GetParam().dtype; }
  double tolerance() const { return card_tolerance(dtype()); }
  // One row more than is used.
  Dims dims(int64_t columns) const { return {tokens(rows() + 1), fixed(columns)}; }
  Extents extents() const { return at_tokens(rows()); }
  void check_norms();
};

void CudaRows::check_norms() {
  for (uint32_t accumulates : {0U, 3U}) {
    Builder builder("norm");
    BufferId x = builder.input("x", dtype(), dims(width()));
    BufferId b = builder.input("b", dtype(), dims(width()));
    BufferId dy = builder.input("dy", dtype(), dims(width()));
    BufferId w = builder.weight("w", GetParam().weight, {fixed(width())}, {});
    BufferId y = builder.input("y", dtype(), dims(width()));
    BufferId alone = builder.temporary("alone", dtype(), dims(width()));
    BufferId sum = builder.temporary("sum", dtype(), dims(width()));
    BufferId normed = builder.temporary("normed", dtype(), dims(width()));
    BufferId dx = builder.input("dx", dtype(), dims(width()));
    BufferId dw = builder.persistent("dw", DType::f32, {fixed(width())}, Role::gradients);
    BufferId other_dw = builder.persistent("other_dw", DType::f32, {fixed(width())}, Role::gradients);
    NormAttributes attributes{1e-5F};
    builder.append(OpKind::rms_norm, "norm", {x, w}, {y}, attributes).accumulates = accumulates & 1U;
    builder.append(OpKind::rms_norm, "alone", {x, w}, {alone}, attributes);
    builder.append(OpKind::add_rms_norm, "add_norm", {x, b, w}, {sum, normed}, attributes);
    builder.append(OpKind::rms_norm_backward, "backward", {x, w, dy}, {dx, dw}, attributes).accumulates =
        accumulates;
    builder.append(OpKind::rms_norm_backward, "only dw", {x, w, dy}, {kNoBuffer, other_dw}, attributes);
    OnBoth both(builder.finish());
    uint64_t seed = 1;
    for (const char* name : {"x", "b", "dy", "w", "y", "dx", "dw"}) {
      both.randomise(name, seed++);
    }
    both.run(extents());
    // Rounded before the weight, after it and in the sum.
    both.expect_close_sums("y", "alone", 1.5 * tolerance());
    for (const char* name : {"alone", "sum", "normed", "dx"}) {
      both.expect_close_values(name, 1.5 * tolerance());
    }
    both.expect_close_norms("dw", 1e-5);
    both.expect_close_norms("other_dw", 1e-5);
  }
}

TEST_P(CudaRows, NormsAndTheirGradients) {
  check_norms();
}

// More than a thread's usual share of a row.
class CudaWideRows : public CudaRows {};

TEST_P(CudaWideRows, NormsAndTheirGradients) {
  check_norms();
}

INSTANTIATE_TEST_SUITE_P(Sizes, CudaWideRows,
                         testing::Values(Case{19, 9000, DType::bf16, DType::bf16},
                                         Case{3, 16384, DType::f16, DType::f32},
                                         Case{10, 3001, DType::f32, DType::f32}),
                         name_of_case);

TEST_P(CudaRows, HeadNormAndItsGradient) {
  int64_t head = width() % 2 == 0 ? width() / 2 : width();
  Dims shape = dims(5 * head);
  Builder builder("head_norm");
  BufferId x = builder.input("x", dtype(), shape);
  BufferId dy = builder.input("dy", dtype(), shape);
  BufferId wq = builder.weight("wq", GetParam().weight, {fixed(head)}, {});
  BufferId wk = builder.weight("wk", GetParam().weight, {fixed(head)}, {});
  BufferId y = builder.temporary("y", dtype(), shape);
  BufferId dx = builder.temporary("dx", dtype(), shape);
  BufferId dwq = builder.persistent("dwq", DType::f32, {fixed(head)}, Role::gradients);
  BufferId dwk = builder.persistent("dwk", DType::f32, {fixed(head)}, Role::gradients);
  HeadNormAttributes attributes{.q_heads = 3, .k_heads = 1, .epsilon = 1e-5F};
  builder.append(OpKind::head_norm, "norm", {x, wq, wk}, {y}, attributes);
  builder.append(OpKind::head_norm_backward, "backward", {x, wq, wk, dy}, {dx, dwq, dwk}, attributes)
      .accumulates = 2;
  OnBoth both(builder.finish());
  uint64_t seed = 1;
  for (const char* name : {"x", "dy", "wq", "wk", "dwq"}) {
    both.randomise(name, seed++);
  }
  both.run(extents());
  both.expect_close_values("y", 1.5 * tolerance());
  both.expect_close_values("dx", tolerance());
  both.expect_close_norms("dwq", 1e-5);
  both.expect_close_norms("dwk", 1e-5);
}

TEST_P(CudaRows, RopeThereAndBack) {
  int64_t head = std::min<int64_t>(256, width() + width() % 2);
  Dims shape = dims(3 * head);
  for (uint32_t accumulates : {0U, 1U}) {
    Builder builder("rope");
    BufferId x = builder.input("x", dtype(), shape);
    BufferId positions = builder.input("positions", DType::i32, {tokens(rows() + 1)});
    BufferId frequencies =
        builder.persistent("frequencies", DType::f32, {fixed(head / 2)}, Role::base_weights);
    BufferId y = builder.input("y", dtype(), shape);
    BufferId z = builder.temporary("z", dtype(), shape);
    RopeAttributes attributes{.rotated_heads = 2, .head_dim = head, .magnitude = 1.25F};
    builder.append(OpKind::rope, "rope", {x, positions, frequencies}, {y}, attributes).accumulates =
        accumulates;
    BufferId turned = builder.temporary("turned", dtype(), shape);
    builder.append(OpKind::rope, "turned", {x, positions, frequencies}, {turned}, attributes);
    attributes.inverse = true;
    builder.append(OpKind::rope, "back in place", {turned, positions, frequencies}, {z}, attributes);
    OnBoth both(builder.finish());
    both.randomise("x", 1);
    both.randomise("y", 2);
    both.set_ints("positions", random_ids(rows() + 1, 3, 4000));
    std::vector<float> turns(static_cast<size_t>(head / 2));
    for (size_t i = 0; i < turns.size(); ++i) {
      turns[i] = std::pow(10000.0F, -2.0F * static_cast<float>(i) / static_cast<float>(head));
    }
    both.set("frequencies", turns);
    both.run(extents());
    // Angles in the thousands have few digits behind the point in fp32: sin and cos differ by some 1e-4.
    double tolerance_here = std::max(tolerance(), 3e-5);
    both.expect_close_values("y", tolerance_here);
    both.expect_close_values("z",
                             2.5 * tolerance_here);  // rounded twice, the first time before it is turned back
  }
}

TEST_P(CudaRows, GatedActivationsAndTheirGradients) {
  for (Activation activation : {Activation::silu, Activation::gelu_tanh, Activation::gelu}) {
    Builder builder("gate");
    BufferId x = builder.input("x", dtype(), dims(2 * width()));
    BufferId dy = builder.input("dy", dtype(), dims(width()));
    BufferId y = builder.temporary("y", dtype(), dims(width()));
    BufferId dx = builder.temporary("dx", dtype(), dims(2 * width()));
    builder.append(OpKind::gated_activation, "gate", {x}, {y}, GateAttributes{activation});
    BufferId again = builder.temporary("again", dtype(), dims(width()));
    BufferId beside = builder.temporary("beside", dtype(), dims(2 * width()));
    builder.append(OpKind::gated_activation_backward, "backward", {x, dy}, {dx}, GateAttributes{activation});
    builder.append(OpKind::gated_activation_backward, "both", {x, dy}, {beside, again},
                   GateAttributes{activation});
    OnBoth both(builder.finish());
    both.randomise("x", 1, 3.0F);
    both.randomise("dy", 2);
    both.run(extents());
    both.expect_close_values("y", tolerance());
    both.expect_close_values("dx", tolerance());
    both.expect_same_on_card("y", "again");
    both.expect_same_on_card("dx", "beside");
  }
}

TEST_P(CudaRows, AddCopyDropout) {
  for (uint32_t accumulates : {0U, 1U}) {
    Builder builder("elementwise");
    BufferId a = builder.input("a", dtype(), dims(width()));
    BufferId b = builder.input("b", dtype(), dims(width()));
    BufferId sum = builder.input("sum", dtype(), dims(width()));
    BufferId wide = builder.input("wide", DType::f32, dims(width()));
    BufferId again = builder.temporary("again", dtype(), dims(width()));
    BufferId random = builder.input("random", DType::i64, {fixed(3)});
    BufferId dropped = builder.input("dropped", dtype(), dims(width()));
    builder.append(OpKind::add, "add", {a, b}, {sum}).accumulates = accumulates;
    builder.append(OpKind::copy, "widen", {a}, {wide}).accumulates = accumulates;
    builder.append(OpKind::copy, "narrow", {wide}, {again});
    builder.append(OpKind::dropout, "dropout", {a, random}, {dropped}, DropoutAttributes{0.3F, 7})
        .accumulates = accumulates;
    OnBoth both(builder.finish());
    uint64_t seed = 1;
    for (const char* name : {"a", "b", "sum", "wide", "dropped"}) {
      both.randomise(name, seed++);
    }
    both.set_ints("random", {12345, 6, 11});
    both.run(extents());
    for (const char* name : {"sum", "wide", "again", "dropped"}) {
      both.expect_close_values(name, tolerance());
    }
  }
}

TEST_P(CudaRows, EmbeddingAndItsGradient) {
  constexpr int64_t kVocabulary = 13;  // fewer than tokens: rows meet
  for (uint32_t accumulates : {0U, 1U}) {
    Builder builder("embedding");
    BufferId table = builder.weight("table", GetParam().weight, {fixed(kVocabulary), fixed(width())}, {});
    BufferId ids = builder.input("ids", DType::i32, {tokens(rows() + 1)});
    BufferId dy = builder.input("dy", dtype(), dims(width()));
    BufferId y = builder.input("y", dtype(), dims(width()));
    BufferId dtable =
        builder.persistent("dtable", DType::f32, {fixed(kVocabulary), fixed(width())}, Role::gradients);
    builder.append(OpKind::embedding, "embedding", {table, ids}, {y}).accumulates = accumulates;
    builder.append(OpKind::embedding_backward, "backward", {ids, dy}, {dtable}).accumulates = accumulates;
    DType narrow = dtype() == DType::bf16 ? DType::bf16 : DType::f32;
    BufferId rounded =
        builder.persistent("rounded", narrow, {fixed(kVocabulary), fixed(width())}, Role::gradients);
    builder.append(OpKind::embedding_backward, "rounded", {ids, dy}, {rounded}).accumulates = accumulates;
    OnBoth both(builder.finish());
    both.randomise("table", 1);
    both.randomise("dy", 2);
    both.randomise("y", 3);
    both.randomise("dtable", 4);
    both.randomise("rounded", 6);
    both.set_ints("ids", random_ids(rows() + 1, 5, kVocabulary));
    both.run(extents());
    both.expect_close_values("y", tolerance());
    both.expect_close_values("dtable", 1e-5);
    both.expect_close_values("rounded", tolerance());
  }
}

TEST_P(CudaRows, SelectedRowsAndCache) {
  Builder builder("rows");
  BufferId x = builder.input("x", dtype(), dims(width() + 3));
  BufferId rows_id = builder.input("rows", DType::i32, {sequences(2)});
  BufferId slots = builder.input("slots", DType::i32, {tokens(rows() + 1)});
  BufferId y = builder.temporary("y", dtype(), {sequences(2), fixed(width() + 3)});
  BufferId cache = builder.input("cache", dtype(), {fixed(rows() + 4), fixed(width())});
  builder.append(OpKind::select_rows, "select", {x, rows_id}, {y});
  builder.append(OpKind::cache_write, "cache", {x, slots}, {cache}, CacheAttributes{3});
  OnBoth both(builder.finish());
  both.randomise("x", 1);
  both.randomise("cache", 2);
  both.set_ints("rows", {rows() - 1, 0});
  std::vector<int64_t> order(static_cast<size_t>(rows() + 1));
  for (size_t i = 0; i < order.size(); ++i) {
    order[i] = rows() + 3 - static_cast<int64_t>(i);
  }
  both.set_ints("slots", order);
  Extents sizes = extents();
  sizes[static_cast<size_t>(Extent::sequences)] = 2;
  both.run(sizes);
  both.expect_equal("y");
  both.expect_equal("cache");
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, CudaRows,
    testing::Values(Case{1, 1, DType::f32, DType::f32}, Case{37, 19, DType::f32, DType::f32},
                    Case{300, 64, DType::f32, DType::f32}, Case{5, 33, DType::bf16, DType::bf16},
                    Case{130, 128, DType::bf16, DType::bf16}, Case{41, 3584, DType::bf16, DType::bf16},
                    Case{7, 48, DType::bf16, DType::f32}, Case{29, 17, DType::f16, DType::f16},
                    Case{258, 96, DType::f16, DType::f16}, Case{9001, 24, DType::bf16, DType::bf16},
                    Case{515, 1536, DType::bf16, DType::bf16}),
    name_of_case);

TEST(CudaFill, EveryDtype) {
  SKIP_WITHOUT_CARD();
  for (float value : {0.0F, 3.0F}) {
    Builder builder("fill");
    std::vector<BufferId> outputs;
    for (DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
      outputs.push_back(builder.temporary(std::string(name_of(dtype)), dtype, {fixed(7)}));
    }
    builder.append(OpKind::fill, "fill", {}, outputs, FillAttributes{value});
    OnBoth both(builder.finish());
    both.run();
    for (DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
      both.expect_equal(std::string(name_of(dtype)));
    }
  }
}

TEST(CudaCopy, BetweenAllFloatingFormats) {
  SKIP_WITHOUT_CARD();
  const std::vector<DType> formats = {DType::f32, DType::bf16, DType::f16};
  for (DType from : formats) {
    for (DType to : formats) {
      Builder builder("copy");
      BufferId x = builder.input("x", from, {fixed(77)});
      BufferId y = builder.temporary("y", to, {fixed(77)});
      builder.append(OpKind::copy, "copy", {x}, {y});
      OnBoth both(builder.finish());
      both.randomise("x", 1);
      both.run();
      both.expect_close_values("y", card_tolerance(to));
    }
  }
}

}  // namespace
}  // namespace snug
