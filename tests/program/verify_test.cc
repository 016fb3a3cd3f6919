// Each rule of a program, broken once.
#include <gtest/gtest.h>

#include "program/builder.h"

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
