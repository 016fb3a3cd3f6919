// What a running template has at hand: its limits, the place it is at, and the objects it made. Everything
// that a template can make grow is counted here before it grows, and everything that it can make long is
// counted while it goes on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/limits.h"
#include "text/jinja/syntax.h"
#include "text/jinja/value.h"

namespace snug::jinja {

class Runtime {
 public:
  Runtime(std::string name, Limits limits, std::optional<std::tm> now)
      : name_(std::move(name)),
        now_(now),
        work_left_(static_cast<size_t>(limits.steps) * kStepWork),
        bytes_left_(static_cast<size_t>(limits.bytes)),
        levels_left_(limits.depth) {}

  // Throws bad_input with the template's name and the current place.
  [[noreturn]] void fail(const std::string& message) const;
  [[noreturn]] void fail_unsupported(const std::string& construct) const;
  // The template itself refused, with raise_exception.
  [[noreturn]] void refuse(const std::string& message) const;

  void at(Place place) { place_ = place; }
  Place place() const { return place_; }

  void count_steps(size_t steps) {
    steps > SIZE_MAX / kStepWork ? fail_work() : count_work(steps * kStepWork);
  }
  // Text that is looked through: a step for 64 bytes.
  void count_reading(size_t bytes) { count_work(bytes); }
  // Names that are looked through one by one: a step for 16 of them.
  void count_names(size_t names) { count_work(names * (kStepWork / 16)); }
  // Memory that is about to be taken.
  void count_bytes(size_t bytes) {
    if (bytes > bytes_left_) {
      fail_limit("makes too much text or too many values");
    }
    bytes_left_ -= bytes;
  }
  // Items of a list or dict that are about to be made.
  void count_items(size_t items) {
    count_steps(items);  // first: it bounds the product
    count_bytes(items * sizeof(Value));
  }
  void enter() {
    if (--levels_left_ < 0) {
      fail_limit("nests its blocks, macros or values too deeply");
    }
  }
  void leave() { ++levels_left_; }

  // A copy of the text as a value, counted.
  Value text(std::string_view bytes, bool safe = false);
  Value undefined(const std::string& reason);
  // Counted by whoever made the items.
  Value dict(Dict members);

  template <typename T, typename... Parts>
  T* make(Parts&&... parts) {
    count_steps(1);
    count_bytes(sizeof(T));
    objects_.push_back(std::make_unique<T>(std::forward<Parts>(parts)...));
    return static_cast<T*>(objects_.back().get());
  }

  // The time for strftime_now.
  std::tm now() const;

 private:
  static constexpr size_t kStepWork = 64;

  void count_work(size_t work) {
    if (work > work_left_) {
      fail_work();
    }
    work_left_ -= work;
  }
  [[noreturn]] void fail_work() const { fail_limit("takes too many steps"); }
  [[noreturn]] void fail_limit(std::string_view what) const;
  std::string where() const;

  std::string name_;
  std::optional<std::tm> now_;
  Place place_;
  size_t work_left_;
  size_t bytes_left_;
  int levels_left_;
  std::vector<std::unique_ptr<Object>> objects_;
};

// Held while the runtime is one level deeper.
class DepthGuard {
 public:
  explicit DepthGuard(Runtime& runtime) : runtime_(runtime) { runtime_.enter(); }
  ~DepthGuard() { runtime_.leave(); }
  DepthGuard(const DepthGuard&) = delete;
  DepthGuard& operator=(const DepthGuard&) = delete;

 private:
  Runtime& runtime_;
};

// The parameters of a built-in function, by position or by name; nothing where none was given.
class Bound {
 public:
  Bound(Runtime& runtime, std::string_view function, Arguments arguments,
        std::vector<std::string_view> parameters, size_t required = 0);

  bool has(size_t index) const { return values_[index].has_value(); }
  bool has_value(size_t index) const { return has(index) && !values_[index]->is_none(); }
  const Value& operator[](size_t index) const { return *values_[index]; }
  const std::string& string(size_t index) const;
  int64_t integer(size_t index, int64_t fallback) const;
  bool truth(size_t index, bool fallback) const { return has(index) ? values_[index]->truth() : fallback; }

 private:
  Runtime& runtime_;
  std::string_view function_;
  std::vector<std::string_view> parameters_;
  std::vector<std::optional<Value>> values_;
};

}  // namespace snug::jinja
