// Each rule of a program, broken once.
#include <gtest/gtest.h>

#include "ops/effects.h"
#include "ops/table.h"
#include "program/builder.h"
#include "program/operands.h"

namespace snug {
namespace {

Dims row() {
  return {fixed(4)};
}

TEST(Verify, AcceptsAProgramThatKeepsTheRules) {
  Builder builder("good");
  BufferId x = builder.input("x", DType::f32, row());
  BufferId y = builder.temporary("y", DType::f32, row());
  builder.append(OpKind::copy, "copy", {x}, {y});
  builder.append(OpKind::add, "more", {x, x}, {y}).accumulates = 1;
  EXPECT_EQ(find_violation(builder.finish()), "");
}

TEST(Verify, ReadBeforeWrite) {
  Builder builder("bad");
  BufferId x = builder.temporary("x", DType::f32, row());
  BufferId y = builder.temporary("y", DType::f32, row());
  builder.append(OpKind::copy, "copy", {x}, {y});
  EXPECT_EQ(find_violation(builder.finish()), "op 0 (copy): reads \"x\" before it is written");
}

TEST(Verify, AddBeforeWrite) {
  Builder builder("bad");
  BufferId x = builder.input("x", DType::f32, row());
  BufferId y = builder.temporary("y", DType::f32, row());
  builder.append(OpKind::copy, "copy", {x}, {y}).accumulates = 1;
  EXPECT_EQ(find_violation(builder.finish()), "op 0 (copy): adds to \"y\" before it is written");
}

TEST(Verify, SecondWrite) {
  Builder builder("bad");
  BufferId x = builder.input("x", DType::f32, row());
  BufferId y = builder.temporary("y", DType::f32, row());
  builder.append(OpKind::copy, "copy", {x}, {y});
  builder.append(OpKind::copy, "again", {x}, {y});
  EXPECT_EQ(find_violation(builder.finish()), "op 1 (again): writes \"y\" a second time");
}

TEST(Verify, UpdateBeforeWrite) {
  Builder builder("bad");
  BufferId x = builder.input("x", DType::f32, {fixed(1), fixed(4)});
  BufferId slots = builder.input("slots", DType::i32, {fixed(1)});
  BufferId cache = builder.temporary("cache", DType::f32, {fixed(2), fixed(4)});
  builder.append(OpKind::cache_write, "keep", {x, slots}, {cache}, CacheAttributes{});
  EXPECT_EQ(find_violation(builder.finish()), "op 0 (keep): updates \"cache\" before it is written");
}

TEST(Verify, ReadAndChanged) {
  Builder builder("bad");
  BufferId state = builder.persistent("state", DType::f32, row(), Role::optimizer_states);
  builder.append(OpKind::copy, "copy", {state}, {state});
  EXPECT_EQ(find_violation(builder.finish()), "op 0 (copy): changes \"state\", which it also reads");
}

// The update reads its outputs, too: the table says so.
TEST(Effects, OfTheUpdate) {
  for (Beside beside : {Beside::compute_copy, Beside::rest}) {
    Op op{.kind = OpKind::adamw,
          .inputs = {0, 1, 2},
          .outputs = {3, 4, 5, 6},
          .attributes = AdamwAttributes{.weight_decay = {0.0F}, .beside = beside}};
    EXPECT_EQ(effect_on_input(op, 0), Effect::read);  // the gradient
    EXPECT_EQ(effect_on_input(op, 1), Effect::read);  // the step's scalars
    for (size_t output = 0; output < 4; ++output) {
      EXPECT_EQ(effect_on_output(op, output), Effect::update);
    }
  }
  Op close{
      .kind = OpKind::close_step, .inputs = {0, 1}, .outputs = {2, 3, 4, 5}, .attributes = StepAttributes{}};
  EXPECT_EQ(effect_on_output(close, CloseStepOutput::clock), Effect::update);
  EXPECT_EQ(effect_on_output(close, CloseStepOutput::scalars), Effect::write);
  EXPECT_EQ(effect_on_output(close, CloseStepOutput::loss_sum), Effect::update);
}

TEST(Effects, OfProducts) {
  Op product{.kind = OpKind::linear, .inputs = {0, 1}, .outputs = {2}};
  EXPECT_EQ(effect_on_input(product, 1), Effect::read);
  EXPECT_EQ(effect_on_output(product, 0), Effect::write);
  product.accumulates = 1;
  EXPECT_EQ(effect_on_output(product, 0), Effect::add);
}

// Moments that nothing wrote: an update of them was taken for a write once.
TEST(Verify, TheUpdateNeedsItsStates) {
  Builder builder("bad");
  auto state = [&](const char* name) {
    return builder.persistent(name, DType::f32, row(), Role::optimizer_states);
  };
  BufferId scalars = builder.input("scalars", DType::f32, {fixed(4)});
  BufferId norm = builder.input("norm", DType::f32, {fixed(1)});
  BufferId moment = builder.temporary("moment", DType::f32, row());
  builder.append(OpKind::adamw, "update", {state("gradient"), scalars, norm},
                 {state("parameter"), moment, state("second")}, AdamwAttributes{.weight_decay = {0.0F}});
  Program program = builder.finish();
  EXPECT_EQ(find_violation(program), "op 0 (update): updates \"moment\" before it is written");
  EXPECT_DEATH(lifetimes(program), "nothing has written moment when it is needed");
}

TEST(Verify, NamesAndSizesAndIds) {
  Builder twice("bad");
  twice.input("x", DType::f32, row());
  twice.temporary("x", DType::f32, row());
  EXPECT_EQ(find_violation(twice.finish()), "two buffers are named \"x\"");

  Builder empty("bad");
  empty.input("x", DType::f32, {fixed(0)});
  EXPECT_EQ(find_violation(empty.finish()), "buffer \"x\" has a dimension of 0");

  Builder outside("bad");
  outside.append(OpKind::copy, "copy", {7}, {8});
  EXPECT_EQ(find_violation(outside.finish()), "op 0 (copy): input 7 is no buffer");
}

// The loss head has a row for each target, and no more of them than tokens.
TEST(Shapes, OfTheLossHead) {
  auto problem = [](Dims targets, Dims rows) {
    Builder builder("loss");
    BufferId x = builder.input("x", DType::f32, {{Extent::tokens, 8}, fixed(4)});
    BufferId w = builder.weight("w", DType::f32, {fixed(16), fixed(4)}, {});
    BufferId of_rows = targets.empty() ? kNoBuffer : builder.input("targets", DType::i32, std::move(targets));
    BufferId tokens = rows.empty() ? kNoBuffer : builder.input("rows", DType::i32, std::move(rows));
    BufferId scale = builder.input("scale", DType::f32, {fixed(1)});
    BufferId loss = builder.persistent("loss", DType::f64, {fixed(1)}, Role::batch);
    builder.append(OpKind::loss_head, "head", {x, w, of_rows, tokens, scale}, {loss}, LossAttributes{});
    const Program& program = builder.program();
    return row_of(OpKind::loss_head).find_shape_problem(program, program.ops[0]);
  };
  Dim most{Extent::targets, 8};
  EXPECT_EQ(problem({most}, {most}), "");
  EXPECT_EQ(problem({}, {most}), "needs targets [R]");
  EXPECT_EQ(problem({{Extent::targets, 9}}, {{Extent::targets, 9}}), "has more targets than tokens");
  EXPECT_EQ(problem({most}, {}), "rows is missing");
  EXPECT_EQ(problem({most}, {{Extent::targets, 6}}), "rows \"rows\" is [6], not [8]");
}

TEST(Lifetimes, InputsFromTheStartOutputsToTheEnd) {
  Builder builder("life");
  BufferId x = builder.input("x", DType::f32, row());
  BufferId a = builder.temporary("a", DType::f32, row());
  BufferId b = builder.temporary("b", DType::f32, row());
  BufferId unused = builder.temporary("unused", DType::f32, row());
  builder.append(OpKind::copy, "0", {x}, {a});
  builder.append(OpKind::copy, "1", {a}, {b});
  builder.append(OpKind::copy, "2", {a}, {b}).accumulates = 1;
  builder.program().buffer(b).lifetime = Lifetime::output;
  std::vector<Interval> intervals = lifetimes(builder.finish());
  auto expect = [&](BufferId id, int first, int last) {
    EXPECT_EQ(intervals[static_cast<size_t>(id)].first, first);
    EXPECT_EQ(intervals[static_cast<size_t>(id)].last, last);
  };
  expect(x, 0, 0);
  expect(a, 0, 2);
  expect(b, 1, 2);
  expect(unused, -1, -1);
}

}  // namespace
}  // namespace snug
