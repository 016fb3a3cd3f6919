// What a running template has at hand: its limits, the place it is at, and the objects it made. Templates
// come with downloaded models, so work, memory and depth are bounded.
#pragma once

#include <cstdint>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/syntax.h"
#include "text/jinja/value.h"

namespace snug::jinja {

struct Limits {
  int64_t steps = 10'000'000;             // expressions, loop rounds, items touched
  int64_t text_bytes = int64_t{1} << 30;  // text made in all, the output among it
  int depth = 500;                        // of expressions, blocks and macros in each other
};

class Runtime {
 public:
  Runtime(std::string name, Limits limits, std::optional<std::tm> now)
      : name_(std::move(name)), limits_(limits), now_(now) {}

  // Throws bad_input with the template's name and the current place.
  [[noreturn]] void fail(const std::string& message) const;
  [[noreturn]] void fail_unsupported(const std::string& construct) const;
  // The template itself refused, with raise_exception.
  [[noreturn]] void refuse(const std::string& message) const;

  void at(Place place) { place_ = place; }
  Place place() const { return place_; }
  void count_steps(int64_t steps) {
    if ((steps_ += steps) > limits_.steps) {
      fail_limit("takes too many steps");
    }
  }
  void count_text(size_t bytes) {
    if ((text_bytes_ += static_cast<int64_t>(bytes)) > limits_.text_bytes) {
      fail_limit("makes too much text");
    }
  }
  void enter() {
    if (++depth_ > limits_.depth) {
      fail_limit("nests its blocks, macros or values too deeply");
    }
  }
  void leave() { --depth_; }

  // A string value, counted.
  Value text(std::string bytes) {
    count_text(bytes.size());
    return Value(std::move(bytes));
  }
  // A list value, counted.
  Value list(std::vector<Value> items) {
    count_steps(static_cast<int64_t>(items.size()));
    return Value::list(std::move(items));
  }

  template <typename T, typename... Parts>
  T* make(Parts&&... parts) {
    count_steps(1);
    objects_.push_back(std::make_unique<T>(std::forward<Parts>(parts)...));
    return static_cast<T*>(objects_.back().get());
  }

  // The time for strftime_now.
  std::tm now() const;

 private:
  [[noreturn]] void fail_limit(std::string_view what) const;
  std::string where() const;

  std::string name_;
  Limits limits_;
  std::optional<std::tm> now_;
  Place place_;
  int64_t steps_ = 0;
  int64_t text_bytes_ = 0;
  int depth_ = 0;
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
