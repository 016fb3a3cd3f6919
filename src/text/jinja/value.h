// The values that a template computes with: Python's, as far as templates see them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace snug::jinja {

class Callable;
class Object;
class Runtime;
class Value;

// A name or member that is not there. It prints as nothing and is false; anything else done with it fails
// with this reason.
struct Undefined {
  std::shared_ptr<const std::string> reason;
};

struct None {};

struct Text {
  std::shared_ptr<const std::string> bytes;
  bool safe = false;  // passed through the filter `safe`: adding other text to it escapes that for HTML
};

enum class SequenceKind : uint8_t {
  list,
  tuple,
  range,      // of numbers: like a tuple, but prints otherwise
  view,       // a dict's keys, values or items: has a length, no positions
  generator,  // what `map` and `select` give: always true, no length, gone once it was walked through
};

struct Sequence {
  SequenceKind kind = SequenceKind::list;
  std::vector<Value> items;
  int depth = 1;  // levels of lists and dicts in it
};

// In the order of insertion, as in Python. Small: members are looked for one by one.
class Dict {
 public:
  // Other keys than text are looked for by find_member (operators.h), which counts what it compares.
  const Value* find(std::string_view key) const;
  void set(std::string_view key, Value value);
  // For keys that are known to be new.
  void append(Value key, Value value);
  void replace(size_t index, Value value);
  const std::vector<std::pair<Value, Value>>& items() const { return items_; }
  int depth() const { return depth_; }

 private:
  int depth_ = 1;
  std::vector<std::pair<Value, Value>> items_;
};

class Value {
 public:
  Value() : data_(None{}) {}
  explicit Value(bool value) : data_(value) {}
  explicit Value(int64_t value) : data_(value) {}
  explicit Value(double value) : data_(value) {}
  explicit Value(std::string text, bool safe = false)
      : data_(Text{std::make_shared<const std::string>(std::move(text)), safe}) {}
  explicit Value(const char* text) : Value(std::string(text)) {}
  explicit Value(std::string_view text) : Value(std::string(text)) {}
  explicit Value(std::shared_ptr<const Dict> dict) : data_(std::move(dict)) {}
  explicit Value(Object* object) : data_(object) {}
  static Value undefined(std::string reason);
  static Value sequence(SequenceKind kind, std::vector<Value> items);
  static Value list(std::vector<Value> items) { return sequence(SequenceKind::list, std::move(items)); }

  bool is_undefined() const { return std::holds_alternative<Undefined>(data_); }
  bool is_none() const { return std::holds_alternative<None>(data_); }
  bool is_boolean() const { return std::holds_alternative<bool>(data_); }
  bool is_integer() const { return std::holds_alternative<int64_t>(data_); }
  bool is_real() const { return std::holds_alternative<double>(data_); }
  bool is_string() const { return std::holds_alternative<Text>(data_); }
  bool is_sequence() const { return std::holds_alternative<std::shared_ptr<Sequence>>(data_); }
  bool is_sequence(SequenceKind kind) const { return is_sequence() && sequence().kind == kind; }
  bool is_dict() const { return std::holds_alternative<std::shared_ptr<const Dict>>(data_); }
  bool is_object() const { return std::holds_alternative<Object*>(data_); }
  // Python counts True and False among its integers.
  bool is_integral() const { return is_integer() || is_boolean(); }
  bool is_number() const { return is_integral() || is_real(); }

  const std::string& undefined_reason() const { return *std::get<Undefined>(data_).reason; }
  bool boolean() const { return std::get<bool>(data_); }
  int64_t integer() const { return is_boolean() ? int64_t{boolean()} : std::get<int64_t>(data_); }
  double real() const { return is_real() ? std::get<double>(data_) : static_cast<double>(integer()); }
  const std::string& string() const { return *std::get<Text>(data_).bytes; }
  bool is_safe() const { return is_string() && std::get<Text>(data_).safe; }
  Sequence& sequence() const { return *std::get<std::shared_ptr<Sequence>>(data_); }
  const Dict& dict() const { return *std::get<std::shared_ptr<const Dict>>(data_); }
  Object& object() const { return *std::get<Object*>(data_); }

  bool truth() const;
  // As Python names it: "str", "int", "NoneType", ...
  std::string_view type_name() const;
  // Levels of lists and dicts. Making a value of more than 200 fails: what walks through values recurses.
  int depth() const { return is_sequence() ? sequence().depth : is_dict() ? dict().depth() : 0; }
  // One list, dict or text in two places: no need to compare what is in it.
  bool is_shared_with(const Value& other) const;

 private:
  std::variant<None, Undefined, bool, int64_t, double, Text, std::shared_ptr<Sequence>,
               std::shared_ptr<const Dict>, Object*>
      data_;
};

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// What has attributes or can be called: namespaces, loops, macros, functions. The runtime owns it, so that
// objects may refer to each other in circles.
class Object {
 public:
  Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object() = default;
  virtual std::string_view type_name() const = 0;
  virtual std::optional<Value> attribute(Runtime& runtime, std::string_view name);
  virtual Callable* callable() { return nullptr; }
};

class Callable : public Object {
 public:
  Callable* callable() final { return this; }
  virtual Value call(Runtime& runtime, Arguments arguments) = 0;
};

}  // namespace snug::jinja
