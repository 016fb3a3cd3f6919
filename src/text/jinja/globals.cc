// The global functions: Jinja's, and those that transformers adds for chat templates.
#include <fmt/format.h>

#include <array>
#include <ctime>

#include "io/printable.h"
#include "text/jinja/builders.h"
#include "text/jinja/builtins.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"

namespace snug::jinja {

std::optional<Value> Namespace::attribute(Runtime& runtime, std::string_view name) {
  runtime.count_names(members_.items().size());
  const Value* found = members_.find(name);
  return found != nullptr ? std::optional(*found) : std::nullopt;
}

void Namespace::set(Runtime& runtime, std::string_view name, Value value) {
  if (name.starts_with('_')) {
    runtime.fail(fmt::format("a namespace's attribute may not begin with '_': {}", in_quotes(name, 40)));
  }
  set_member(runtime, members_, runtime.text(name), std::move(value));
}

namespace {

using GlobalFunction = Value (*)(Runtime& runtime, Arguments arguments);

class Function : public Callable {
 public:
  explicit Function(GlobalFunction function) : function_(function) {}
  std::string_view type_name() const override { return "function"; }
  Value call(Runtime& runtime, Arguments arguments) override {
    return function_(runtime, std::move(arguments));
  }

 private:
  GlobalFunction function_;
};

// The members of a dict() or namespace() call: a dict or pairs first, then named ones.
Dict members_of(Runtime& runtime, Arguments arguments) {
  Dict result;
  auto add = [&](Value key, Value value) { set_member(runtime, result, std::move(key), std::move(value)); };
  if (arguments.positional.size() > 1) {
    runtime.fail("dict() and namespace() take one argument without a name at most");
  }
  for (const Value& given : arguments.positional) {
    if (given.is_dict()) {
      for (const auto& [key, value] : given.dict().items()) {
        add(key, value);
      }
      continue;
    }
    for (const Value& pair : iterate(runtime, given)) {
      std::vector<Value> parts = iterate(runtime, pair);
      if (parts.size() != 2) {
        runtime.fail("dict() needs pairs of a key and a value");
      }
      add(parts[0], parts[1]);
    }
  }
  for (auto& member : arguments.named) {
    add(Value(std::move(member.first)), std::move(member.second));
  }
  return result;
}

Value make_dict(Runtime& runtime, Arguments arguments) {
  return runtime.dict(members_of(runtime, std::move(arguments)));
}

Value make_namespace(Runtime& runtime, Arguments arguments) {
  Dict members = members_of(runtime, std::move(arguments));
  auto* result = runtime.make<Namespace>();
  for (const auto& [name, value] : members.items()) {
    result->set(runtime, to_text(runtime, name).string(), value);
  }
  return Value(result);
}

Value range(Runtime& runtime, Arguments arguments) {
  Bound bound(runtime, "range", std::move(arguments), {"first", "last", "step"}, 1);
  int64_t first = bound.has(1) ? bound.integer(0, 0) : 0;
  int64_t last = bound.has(1) ? bound.integer(1, 0) : bound.integer(0, 0);
  int64_t step = bound.integer(2, 1);
  if (step == 0) {
    runtime.fail("range() needs a step other than zero");
  }
  constexpr size_t kMaxItems = 100'000;  // of Jinja's sandbox
  ListBuilder items(runtime);
  for (int64_t i = first; step > 0 ? i < last : i > last;) {
    if (items.size() == kMaxItems) {
      runtime.fail(fmt::format("range() of more than {} numbers", kMaxItems));
    }
    items.append(Value(i));
    if (__builtin_add_overflow(i, step, &i)) {
      break;
    }
  }
  return items.value(SequenceKind::range);
}

Value raise_exception(Runtime& runtime, Arguments arguments) {
  Bound bound(runtime, "raise_exception", std::move(arguments), {"message"}, 1);
  runtime.refuse(to_text(runtime, bound[0]).string());
}

Value strftime_now(Runtime& runtime, Arguments arguments) {
  Bound bound(runtime, "strftime_now", std::move(arguments), {"format"}, 1);
  constexpr size_t kMaxFormatBytes = 200;
  const std::string& format = bound.string(0);
  if (format.size() > kMaxFormatBytes) {
    runtime.fail("strftime_now() with a very long format");
  }
  std::tm now = runtime.now();
  std::array<char, 4096> buffer = {};
  // A width such as %99999Y is glibc's own and could ask for any size; a result that is too long is empty.
  size_t size = std::strftime(buffer.data(), buffer.size(), format.c_str(), &now);
  return runtime.text({buffer.data(), size});
}

}  // namespace

std::optional<Value> find_global(Runtime& runtime, std::string_view name) {
  constexpr std::pair<std::string_view, GlobalFunction> kFunctions[] = {
      {"dict", make_dict}, {"namespace", make_namespace},  {"raise_exception", raise_exception},
      {"range", range},    {"strftime_now", strftime_now},
  };
  for (const auto& [known, function] : kFunctions) {
    if (known == name) {
      return Value(runtime.make<Function>(function));
    }
  }
  for (const char* other : {"cycler", "joiner", "lipsum"}) {
    if (name == other) {
      runtime.fail_unsupported(fmt::format("the function '{}'", name));
    }
  }
  return std::nullopt;
}

}  // namespace snug::jinja
