// Attention and its gradient against full score matrices in double, and the gradient also against finite
// differences: GQA, windows, lengths of 1, keys beyond the queries, several blocks, bf16, dropout.
#include <limits>
#include <numeric>

#include "base/rng.h"
#include "base/threads.h"
#include "support/run_ops.h"
#include "support/values.h"

namespace snug {
namespace {

struct Case {
  int64_t heads;
  int64_t kv_heads;
  int64_t head_dim;
  std::vector<int64_t> queries;  // per sequence
  std::vector<int64_t> keys;     // empty: as many as queries, and q, k, v share one buffer
  bool causal = true;
  int64_t window = 0;
  DType dtype = DType::f32;
  float dropout = 0;
  int64_t first_token = 1000;  // of the micro-batch within its step

  bool fused() const { return keys.empty(); }
  const std::vector<int64_t>& key_counts() const { return fused() ? queries : keys; }
};

std::vector<int64_t> offsets_of(const std::vector<int64_t>& counts) {
  std::vector<int64_t> result{0};
  for (int64_t count : counts) {
    result.push_back(result.back() + count);
  }
  return result;
}

int64_t sum_of(const std::vector<int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

constexpr int64_t kSeed = 77;
constexpr int64_t kStep = 3;
constexpr uint64_t kStream = 9;

// The rule of backend/dropout_mask.h: what a weight is multiplied with.
double factor_of(const Case& c, int64_t query, int64_t head, int64_t key) {
  uint64_t mixed = kStep + 0x9E3779B97F4A7C15ULL;  // the finaliser of splitmix64
  mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9ULL;
  mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBULL;
  mixed ^= mixed >> 31;
  auto element = static_cast<uint64_t>(((c.first_token + query) * c.heads + head) * (1 << 24) + key);
  uint32_t word = philox<7>(kSeed, kStream ^ mixed, element / 8)[element % 8 / 2];
  uint32_t half = element % 2 == 0 ? word & 0xFFFF : word >> 16;
  return half >= std::lround(c.dropout * 65536) ? 1 / (1 - static_cast<double>(c.dropout)) : 0;
}

// Where things lie. Apart from fused rows, q and kv rows carry a column that belongs to nobody.
struct Layout {
  int64_t q_columns;
  int64_t kv_columns;
  AttentionAttributes attributes;

  explicit Layout(const Case& c) {
    int64_t q_width = c.heads * c.head_dim;
    int64_t kv_width = c.kv_heads * c.head_dim;
    attributes = {.heads = c.heads, .kv_heads = c.kv_heads, .head_dim = c.head_dim};
    attributes.causal = c.causal;
    attributes.window = c.window;
    attributes.scale = 1.0F / std::sqrt(static_cast<float>(c.head_dim));
    attributes.q_column = c.fused() ? 0 : 1;
    attributes.k_column = c.fused() ? q_width : 0;
    attributes.v_column = attributes.k_column + kv_width;
    attributes.dropout = {c.dropout, kStream};
    q_columns = c.fused() ? q_width + 2 * kv_width : q_width + 1;
    kv_columns = c.fused() ? q_columns : 2 * kv_width;
  }
};

struct Inputs {
  std::vector<double> q;   // [T, q_columns]
  std::vector<double> kv;  // [Tk, kv_columns]
  std::vector<double> dout;
};

struct Outputs {
  std::vector<double> o;
  std::vector<double> lse;
  std::vector<double> dq;  // as wide as q; columns of nobody stay 0
  std::vector<double> dkv;
};

// One query of one head, the straightforward way.
class Reference {
 public:
  Reference(const Case& c, const Inputs& inputs) : case_(c), layout_(c), inputs_(inputs) {
    auto width = static_cast<size_t>(sum_of(c.queries) * c.heads);
    result_.o.resize(width * static_cast<size_t>(c.head_dim));
    result_.lse.resize(width);
    result_.dq.resize(inputs.q.size());
    result_.dkv.resize(inputs.kv.size());
    std::vector<int64_t> q_offsets = offsets_of(c.queries);
    std::vector<int64_t> k_offsets = offsets_of(c.key_counts());
    for (size_t s = 0; s < c.queries.size(); ++s) {
      for (int64_t i = 0; i < c.queries[s]; ++i) {
        int64_t end = i + c.key_counts()[s] - c.queries[s];  // the key that stands where the query stands
        for (int64_t h = 0; h < c.heads; ++h) {
          add_query(q_offsets[s] + i, k_offsets[s], c.key_counts()[s], end, h);
        }
      }
    }
  }
  const Outputs& result() const { return result_; }

 private:
  void add_query(int64_t row, int64_t key_row, int64_t keys, int64_t end, int64_t head) {
    const AttentionAttributes& a = layout_.attributes;
    int64_t kv_column = head / (a.heads / a.kv_heads) * a.head_dim;
    auto q = static_cast<size_t>(row * layout_.q_columns + a.q_column + head * a.head_dim);
    auto out = static_cast<size_t>((row * a.heads + head) * a.head_dim);
    auto dim = static_cast<size_t>(a.head_dim);
    auto key_at = [&](int64_t j) {
      return static_cast<size_t>((key_row + j) * layout_.kv_columns + a.k_column + kv_column);
    };
    auto value_at = [&](int64_t j) {
      return static_cast<size_t>((key_row + j) * layout_.kv_columns + a.v_column + kv_column);
    };
    std::vector<int64_t> seen;
    std::vector<double> weights;
    double sum = 0;
    for (int64_t j = 0; j < keys; ++j) {
      if ((a.causal && j > end) || (a.window > 0 && j <= end - a.window)) {
        continue;
      }
      double score = 0;
      for (size_t d = 0; d < dim; ++d) {
        score += inputs_.q[q + d] * inputs_.kv[key_at(j) + d];
      }
      seen.push_back(j);
      weights.push_back(std::exp(score * static_cast<double>(a.scale)));
      sum += weights.back();
    }
    double delta = 0;
    std::vector<double> factors;
    for (size_t n = 0; n < seen.size(); ++n) {
      weights[n] /= sum;
      factors.push_back(factor_of(case_, row, head, seen[n]));
      for (size_t d = 0; d < dim; ++d) {
        double part = weights[n] * factors[n] * inputs_.kv[value_at(seen[n]) + d];
        result_.o[out + d] += part;
        delta += part * inputs_.dout[out + d];
      }
    }
    result_.lse[static_cast<size_t>(row * a.heads + head)] = std::log(sum);
    for (size_t n = 0; n < seen.size(); ++n) {
      double dweight = 0;
      for (size_t d = 0; d < dim; ++d) {
        dweight += factors[n] * inputs_.dout[out + d] * inputs_.kv[value_at(seen[n]) + d];
        result_.dkv[value_at(seen[n]) + d] += weights[n] * factors[n] * inputs_.dout[out + d];
      }
      double dscore = weights[n] * (dweight - delta) * static_cast<double>(a.scale);
      for (size_t d = 0; d < dim; ++d) {
        // Fused q and kv are one buffer, so their gradients are as well.
        (case_.fused() ? result_.dkv : result_.dq)[q + d] += dscore * inputs_.kv[key_at(seen[n]) + d];
        result_.dkv[key_at(seen[n]) + d] += dscore * inputs_.q[q + d];
      }
    }
  }

  const Case& case_;
  Layout layout_;
  const Inputs& inputs_;
  Outputs result_;
};

std::vector<double> in_double(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

Inputs random_inputs(const Case& c) {
  Layout layout(c);
  auto draw = [&](int64_t count, uint64_t seed) {
    return in_double(rounded(random_values(count, seed), c.dtype));
  };
  Inputs inputs;
  inputs.q = draw(sum_of(c.queries) * layout.q_columns, 1);
  inputs.kv = c.fused() ? inputs.q : draw(sum_of(c.key_counts()) * layout.kv_columns, 2);
  inputs.dout = draw(sum_of(c.queries) * c.heads * c.head_dim, 3);
  return inputs;
}

// Forward and backward of one case as a program.
OpRunner make_runner(const Case& c) {
  Layout layout(c);
  Dim q_rows = tokens(sum_of(c.queries));
  Dim kv_rows = c.fused() ? q_rows : Dim{Extent::cached_tokens, sum_of(c.key_counts())};
  Dim offset_rows = offsets(static_cast<int64_t>(c.queries.size()) + 1);
  Dims out = {q_rows, fixed(c.heads * c.head_dim)};
  Builder builder("attention");
  BufferId q = builder.input("q", c.dtype, {q_rows, fixed(layout.q_columns)});
  BufferId kv = c.fused() ? q : builder.input("kv", c.dtype, {kv_rows, fixed(layout.kv_columns)});
  BufferId q_offsets = builder.input("q_offsets", DType::i32, {offset_rows});
  BufferId kv_offsets = builder.input("kv_offsets", DType::i32, {offset_rows});
  BufferId o = builder.temporary("o", c.dtype, out);
  BufferId lse = builder.temporary("lse", DType::f32, {q_rows, fixed(c.heads)});
  BufferId dout = builder.input("do", c.dtype, out);
  BufferId dq = builder.temporary("dq", c.dtype, {q_rows, fixed(layout.q_columns)});
  BufferId dkv = c.fused() ? dq : builder.temporary("dkv", c.dtype, {kv_rows, fixed(layout.kv_columns)});
  std::vector<BufferId> inputs = {q, kv, q_offsets, kv_offsets};
  std::vector<BufferId> backward = {q, kv, q_offsets, kv_offsets, o, lse, dout};
  if (c.dropout > 0) {
    BufferId random = builder.input("random", DType::i64, {fixed(3)});
    inputs.insert(inputs.end(), {kNoBuffer, random});
    backward.insert(backward.end(), {kNoBuffer, random});
  }
  builder.append(OpKind::attention, "attention", inputs, {o, lse}, layout.attributes);
  builder.append(OpKind::attention_backward, "attention", backward, {dq, dkv}, layout.attributes);
  return OpRunner(builder.finish());
}

std::vector<float> in_float(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

void set_inputs(OpRunner& runner, const Case& c, const Inputs& inputs) {
  runner.set("q", in_float(inputs.q));
  if (!c.fused()) {
    runner.set("kv", in_float(inputs.kv));
    runner.set("dq", std::vector<float>(inputs.q.size(), 0.0F));  // the column of nobody
  }
  runner.set("do", in_float(inputs.dout));
  runner.set_ints("q_offsets", offsets_of(c.queries));
  runner.set_ints("kv_offsets", offsets_of(c.key_counts()));
  if (c.dropout > 0) {
    runner.set_ints("random", {kSeed, kStep, c.first_token});
  }
}

class AttentionTest : public testing::TestWithParam<Case> {};

TEST_P(AttentionTest, ForwardAndBackwardFollowTheFormula) {
  const Case& c = GetParam();
  Inputs inputs = random_inputs(c);
  OpRunner runner = make_runner(c);
  set_inputs(runner, c, inputs);
  runner.run();
  Reference reference(c, inputs);
  const Outputs& wanted = reference.result();
  bool narrow = c.dtype == DType::bf16;
  // Scores of unit size, up to 4, are sums of head_dim products; the relative error of a weight is the
  // absolute error of its score. Then values are added up over the keys.
  double keys = static_cast<double>(std::max<int64_t>(sum_of(c.key_counts()), 1));
  double score_error = 4 * fp32_error(static_cast<double>(c.head_dim));
  double error = score_error + fp32_error(keys);
  expect_close(runner.get("o"), wanted.o, error + (narrow ? 0x1p-8 : 0));
  std::vector<float> lse = runner.get("lse");
  for (size_t i = 0; i < lse.size(); ++i) {
    if (std::isinf(wanted.lse[i])) {
      EXPECT_EQ(lse[i], -std::numeric_limits<float>::infinity());
    } else {
      EXPECT_NEAR(lse[i], wanted.lse[i],
                  score_error + fp32_error(keys) * std::max(1.0, std::abs(wanted.lse[i])));
    }
  }
  // Gradients of scores are differences of two sums over a head, again up to 4. The backward pass reads o as
  // stored: bf16's rounding of it shows in delta. With dropout even a lone key's o is rounded, by up to 2^-9
  // of sum |do * o| (about 16), times scale * k.
  double tolerance = 4 * error + (!narrow ? 0 : c.dropout > 0 ? 0x1p-5 : 0x1p-7);
  if (c.fused()) {
    expect_close(runner.get("dq"), wanted.dkv, tolerance);
  } else {
    expect_close(runner.get("dq"), wanted.dq, tolerance);
    expect_close(runner.get("dkv"), wanted.dkv, tolerance);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, AttentionTest,
                         testing::Values(Case{1, 1, 8, {1}, {}},                     //
                                         Case{2, 2, 16, {7, 1, 33}, {}},             //
                                         Case{4, 2, 48, {33, 7}, {}},                //
                                         Case{6, 1, 8, {5, 64, 65, 0, 3}, {}},       //
                                         Case{2, 1, 8, {300}, {}},                   // several blocks of keys
                                         Case{2, 1, 8, {600, 2}, {}, true, 70},      //
                                         Case{2, 2, 16, {33, 7}, {}, true, 4},       //
                                         Case{2, 1, 16, {33, 7}, {}, false},         //
                                         Case{2, 1, 16, {33, 300}, {}, false, 9},    //
                                         Case{4, 2, 16, {1, 1, 1}, {1, 300, 17}},    // decoding with a cache
                                         Case{4, 2, 16, {1, 3}, {70, 30}, true, 5},  //
                                         Case{4, 2, 8, {7, 5}, {33, 0}},             // queries without keys
                                         Case{2, 2, 8, {9}, {4}},                    // more queries than keys
                                         Case{4, 2, 48, {33, 7, 1}, {}, true, 0, DType::bf16},   //
                                         Case{2, 1, 16, {300, 65}, {}, true, 100, DType::bf16},  //
                                         Case{4, 2, 16, {1, 2}, {270, 17}, true, 0, DType::bf16},
                                         Case{4, 2, 48, {33, 7}, {}, true, 0, DType::f32, 0.1F},
                                         Case{2, 1, 8, {600, 2}, {}, true, 70, DType::f32, 0.5F},
                                         Case{3, 1, 8, {9, 300}, {40, 270}, false, 0, DType::f32, 0.3F},
                                         Case{4, 2, 8, {7, 5}, {33, 0}, true, 0, DType::f32, 0.9F},
                                         Case{2, 1, 16, {300, 65}, {}, true, 100, DType::bf16, 0.1F}));

class AttentionSlopes : public testing::TestWithParam<float> {};

TEST_P(AttentionSlopes, GradientMatchesFiniteDifferences) {
  Case c{4, 2, 4, {3, 1, 4}, {}, true, 3, DType::f32, GetParam()};
  Inputs inputs = random_inputs(c);
  OpRunner runner = make_runner(c);
  set_inputs(runner, c, inputs);
  runner.run();
  std::vector<double> quotients(inputs.q.size());
  for (size_t i = 0; i < quotients.size(); ++i) {
    constexpr double kShift = 1e-5;
    double values[2];
    for (int side = 0; side < 2; ++side) {
      Inputs moved = inputs;
      moved.q[i] += side == 0 ? -kShift : kShift;
      moved.kv[i] = moved.q[i];
      Reference reference(c, moved);
      values[side] =
          std::inner_product(moved.dout.begin(), moved.dout.end(), reference.result().o.begin(), 0.0);
    }
    quotients[i] = (values[1] - values[0]) / (2 * kShift);
  }
  expect_close(runner.get("dq"), quotients, 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Dropout, AttentionSlopes, testing::Values(0.0F, 0.4F));

// Queries of zero see all keys alike, and the values are the unit vectors: o is the mask itself.
TEST(Attention, DropoutDropsTheRightShareOfEveryQueryHeadAndKeyOnItsOwn) {
  constexpr int64_t kKeys = 64;
  constexpr int64_t kHeads = 4;
  for (float dropout : {0.1F, 0.5F}) {
    Case c{kHeads, kHeads, kKeys, {kKeys, kKeys, kKeys}, {}, false, 0, DType::f32, dropout};
    Layout layout(c);
    Inputs inputs = random_inputs(c);
    for (int64_t row = 0; row < 3 * kKeys; ++row) {
      for (int64_t column = 0; column < layout.q_columns; ++column) {
        bool is_value = column >= layout.attributes.v_column;
        inputs.q[static_cast<size_t>(row * layout.q_columns + column)] =
            is_value && column % kKeys == row % kKeys ? 1 : 0;
      }
    }
    inputs.kv = inputs.q;
    OpRunner runner = make_runner(c);
    set_inputs(runner, c, inputs);
    runner.run();
    std::vector<float> o = runner.get("o");  // [query, head, key]
    auto kept = static_cast<float>(1.0 / (1.0 - static_cast<double>(dropout)) / kKeys);
    int64_t zeros = 0;
    // Pairs of weights that are alike: of neighbouring keys, heads, queries, and of the same places two
    // sequences apart.
    const std::vector<size_t> distances = {1, kKeys, kHeads * kKeys, kHeads * kKeys * kKeys};
    std::vector<int64_t> alike(distances.size());
    for (size_t i = 0; i < o.size(); ++i) {
      zeros += o[i] == 0 ? 1 : 0;
      if (o[i] != 0) {
        ASSERT_NEAR(o[i], kept, 1e-5F);
      }
      for (size_t d = 0; d < distances.size(); ++d) {
        alike[d] += (o[i] == 0) == (o[(i + distances[d]) % o.size()] == 0) ? 1 : 0;
      }
    }
    auto p = static_cast<double>(dropout);
    auto n = static_cast<double>(o.size());
    EXPECT_NEAR(static_cast<double>(zeros) / n, p, 4 * std::sqrt(p * (1 - p) / n));
    double same = p * p + (1 - p) * (1 - p);
    for (int64_t count : alike) {
      EXPECT_NEAR(static_cast<double>(count) / n, same, 6 * std::sqrt(same * (1 - same) / n));
    }
  }
}

TEST(Attention, ResultDoesNotDependOnTheRestOfTheBatchOrThreads) {
  // With dropout as well: its mask follows the query's place in the step.
  Case alone{4, 2, 16, {77}, {}, true, 0, DType::f32, 0.2F, 1005};
  Case among{4, 2, 16, {5, 77, 130}, {}, true, 0, DType::f32, 0.2F, 1000};
  Inputs inputs = random_inputs(among);
  Layout layout(among);
  Inputs part = inputs;
  auto cut = [](const std::vector<double>& values, int64_t width) {
    return std::vector<double>(values.begin() + 5 * width, values.begin() + 82 * width);
  };
  part.q = cut(inputs.q, layout.q_columns);
  part.kv = part.q;
  part.dout = cut(inputs.dout, 4 * 16);
  set_thread_count(1);
  OpRunner one = make_runner(alone);
  set_inputs(one, alone, part);
  one.run();
  set_thread_count(3);
  OpRunner many = make_runner(among);
  set_inputs(many, among, inputs);
  many.run();
  set_thread_count(0);
  auto middle = [&](const std::string& name, int64_t width) {
    std::vector<float> all = many.get(name);
    return std::vector<float>(all.begin() + 5 * width, all.begin() + 82 * width);
  };
  EXPECT_EQ(one.get("o"), middle("o", 4 * 16));
  EXPECT_EQ(one.get("lse"), middle("lse", 4));
  EXPECT_EQ(one.get("dq"), middle("dq", layout.q_columns));
}

// bf16 gradients of keys are summed in scratch memory that threads have apart or, if they are many, share by
// head.
TEST(Attention, AnyThreadCountGivesTheSameBits) {
  Case c{4, 2, 16, {5, 77, 130, 9}, {}, true, 0, DType::bf16};
  const Inputs inputs = random_inputs(c);
  std::vector<std::vector<float>> expected;
  for (int threads : {1, 2, 3, 40}) {
    set_thread_count(threads);
    OpRunner runner = make_runner(c);
    set_inputs(runner, c, inputs);
    runner.run();
    std::vector<std::vector<float>> results = {runner.get("o"), runner.get("dq")};
    expected = expected.empty() ? results : expected;
    EXPECT_EQ(results, expected) << threads << " threads";
  }
  set_thread_count(0);
}

}  // namespace
}  // namespace snug
