// The filters that work on lists and dicts.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <unordered_map>

#include "text/jinja/builders.h"
#include "text/jinja/builtins.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/text.h"

namespace snug::jinja {

namespace {

// "a.b.0" names a member of a member; numbers are positions. An integer is a position too.
Value member(Runtime& runtime, const Value& object, const Value& path, const Value* fallback = nullptr) {
  if (!path.is_string()) {
    return get_item(runtime, object, path);
  }
  Value current = object;
  runtime.count_reading(path.string().size());
  for (std::string_view rest = path.string(); rest.data() != nullptr;) {
    size_t dot = rest.find('.');
    std::string_view part = rest.substr(0, dot);
    rest = dot == std::string_view::npos ? std::string_view() : rest.substr(dot + 1);
    int64_t index = 0;
    auto parsed = std::from_chars(part.data(), part.data() + part.size(), index);
    bool is_index = !part.empty() && part[0] != '-' && parsed.ec == std::errc() &&
                    parsed.ptr == part.data() + part.size();
    current = get_item(runtime, current, is_index ? Value(index) : runtime.text(part));
    if (fallback != nullptr && current.is_undefined()) {
      current = *fallback;
    }
  }
  return current;
}

// What values are sorted and told apart by: an attribute, and strings without regard to case.
class SortKey {
 public:
  SortKey(Runtime& runtime, bool case_sensitive, const Value& attribute)
      : runtime_(runtime), case_sensitive_(case_sensitive), attribute_(attribute) {}
  Value operator()(const Value& value) const {
    Value key = attribute_.is_none() ? value : member(runtime_, value, attribute_);
    if (!key.is_string() || case_sensitive_) {
      return key;
    }
    TextBuilder lower(runtime_);
    append_lower(lower, key.string());
    return lower.value();
  }

 private:
  Runtime& runtime_;
  bool case_sensitive_;
  Value attribute_;
};

Value sorted(Runtime& runtime, const std::vector<Value>& items, const SortKey& key, bool reverse) {
  runtime.count_items(items.size());
  std::vector<std::pair<Value, const Value*>> keyed;
  keyed.reserve(items.size());
  for (const Value& item : items) {
    keyed.emplace_back(key(item), &item);
  }
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& left, const auto& right) {
    return reverse ? less(runtime, right.first, left.first) : less(runtime, left.first, right.first);
  });
  ListBuilder result(runtime);
  for (const auto& entry : keyed) {
    result.append(*entry.second);
  }
  return result.value();
}

Value sort(Runtime& runtime, const Value& input, Arguments arguments) {
  Bound bound(runtime, "sort", std::move(arguments), {"reverse", "case_sensitive", "attribute"});
  if (bound.has_value(2) && bound[2].is_string() && contains(runtime, bound[2], Value(","))) {
    runtime.fail_unsupported("the filter 'sort' by several attributes");
  }
  SortKey key(runtime, bound.truth(1, false), bound.has(2) ? bound[2] : Value());
  return sorted(runtime, iterate(runtime, input), key, bound.truth(0, false));
}

Value unique(Runtime& runtime, const Value& input, Arguments arguments) {
  Bound bound(runtime, "unique", std::move(arguments), {"case_sensitive", "attribute"});
  SortKey key(runtime, bound.truth(0, false), bound.has(1) ? bound[1] : Value());
  ListBuilder seen(runtime);
  ListBuilder result(runtime);
  for (const Value& item : iterate(runtime, input)) {
    Value item_key = key(item);
    if (std::none_of(seen.items().begin(), seen.items().end(),
                     [&](const Value& old) { return equal(runtime, old, item_key); })) {
      seen.append(std::move(item_key));
      result.append(item);
    }
  }
  return result.value(SequenceKind::generator);
}

template <bool want_largest>
Value extreme(Runtime& runtime, const Value& input, Arguments arguments) {
  Bound bound(runtime, want_largest ? "max" : "min", std::move(arguments), {"case_sensitive", "attribute"});
  SortKey key(runtime, bound.truth(0, false), bound.has(1) ? bound[1] : Value());
  std::vector<Value> items = iterate(runtime, input);
  if (items.empty()) {
    return runtime.undefined("no smallest or largest item: there are none");
  }
  size_t best = 0;
  Value best_key = key(items[0]);
  for (size_t i = 1; i < items.size(); ++i) {
    Value candidate = key(items[i]);
    if (want_largest ? less(runtime, best_key, candidate) : less(runtime, candidate, best_key)) {
      best = i;
      best_key = std::move(candidate);
    }
  }
  return items[best];
}

Value dictsort(Runtime& runtime, const Value& input, Arguments arguments) {
  Bound bound(runtime, "dictsort", std::move(arguments), {"case_sensitive", "by", "reverse"});
  std::string_view by = bound.has(1) ? std::string_view(bound.string(1)) : "key";
  require_defined(runtime, input);
  if (!input.is_dict() || (by != "key" && by != "value")) {
    runtime.fail("dictsort needs a dict, and 'key' or 'value' to sort by");
  }
  SortKey key(runtime, bound.truth(0, false), Value(int64_t{by == "key" ? 0 : 1}));
  return sorted(runtime, pairs_of(runtime, input.dict()), key, bound.truth(2, false));
}

Value join(Runtime& runtime, const Value& input, Arguments arguments) {
  Bound bound(runtime, "join", std::move(arguments), {"d", "attribute"});
  Value separator = bound.has(0) ? to_text(runtime, bound[0]) : Value("");
  TextBuilder out(runtime);
  bool is_first = true;
  for (const Value& item : iterate(runtime, input)) {
    out.append(std::exchange(is_first, false) ? "" : separator.string());
    append_text(out, bound.has_value(1) ? member(runtime, item, bound[1]) : item);
  }
  return out.value();
}

Value first(Runtime& runtime, const Value& input, Arguments arguments) {
  Bound bound(runtime, "first", std::move(arguments), {});
  std::vector<Value> items = iterate(runtime, input);
  return items.empty() ? runtime.undefined("no first item: the sequence is empty") : items.front();
}

Value last(Runtime& runtime, const Value& input, Arguments arguments) {
  Bound bound(runtime, "last", std::move(arguments), {});
  if (input.is_sequence(SequenceKind::generator)) {
    runtime.fail("the filter 'last' needs a list; put |list before it");
  }
  std::vector<Value> items = iterate(runtime, input);
  return items.empty() ? runtime.undefined("no last item: the sequence is empty") : items.back();
}

Value list(Runtime& runtime, const Value& input, Arguments arguments) {
  Bound bound(runtime, "list", std::move(arguments), {});
  return Value::list(iterate(runtime, input));
}

Value reverse(Runtime& runtime, const Value& input, Arguments arguments) {
  Bound bound(runtime, "reverse", std::move(arguments), {});
  std::vector<Value> items = iterate(runtime, input);
  std::reverse(items.begin(), items.end());
  if (!input.is_string()) {
    return Value::sequence(SequenceKind::generator, std::move(items));
  }
  TextBuilder out(runtime);
  for (const Value& item : items) {
    out.append(item.string());
  }
  return out.value();
}

Value items(Runtime& runtime, const Value& input, Arguments arguments) {
  Bound bound(runtime, "items", std::move(arguments), {});
  if (!input.is_dict() && !input.is_undefined()) {
    runtime.fail(fmt::format("the filter 'items' needs a dict, not {}", input.type_name()));
  }
  return Value::sequence(SequenceKind::generator,
                         input.is_dict() ? pairs_of(runtime, input.dict()) : std::vector<Value>());
}

Value sum(Runtime& runtime, const Value& input, Arguments arguments) {
  Bound bound(runtime, "sum", std::move(arguments), {"attribute", "start"});
  Value total = bound.has(1) ? bound[1] : Value(int64_t{0});
  for (const Value& item : iterate(runtime, input)) {
    total = arithmetic(runtime, Operator::add, total,
                       bound.has_value(0) ? member(runtime, item, bound[0]) : item);
  }
  return total;
}

std::string take_first_name(Runtime& runtime, Arguments& arguments, std::string_view what) {
  if (arguments.positional.empty() || !arguments.positional[0].is_string()) {
    runtime.fail(fmt::format("the name of {} is missing", what));
  }
  std::string name = arguments.positional[0].string();
  arguments.positional.erase(arguments.positional.begin());
  return name;
}

Value map(Runtime& runtime, const Value& input, Arguments arguments) {
  ListBuilder result(runtime);
  if (!input.truth()) {  // also for None, which otherwise cannot be looped over
    return Value::sequence(SequenceKind::generator, {});
  }
  if (arguments.positional.empty()) {
    Bound bound(runtime, "map", std::move(arguments), {"attribute", "default"}, 1);
    for (const Value& item : iterate(runtime, input)) {
      result.append(member(runtime, item, bound[0], bound.has(1) ? &bound[1] : nullptr));
    }
    return result.value(SequenceKind::generator);
  }
  std::string filter = take_first_name(runtime, arguments, "the filter for 'map'");
  for (const Value& item : iterate(runtime, input)) {
    result.append(apply_filter(runtime, filter, item, arguments));
  }
  return result.value(SequenceKind::generator);
}

template <bool by_attribute, bool wanted>
Value choose(Runtime& runtime, const Value& input, Arguments arguments) {
  if (!input.truth()) {
    return Value::sequence(SequenceKind::generator, {});
  }
  Value attribute;
  if (by_attribute) {
    if (arguments.positional.empty()) {
      runtime.fail("the name of the attribute is missing");
    }
    attribute = arguments.positional[0];
    arguments.positional.erase(arguments.positional.begin());
  }
  std::string test;
  if (!arguments.positional.empty()) {
    test = take_first_name(runtime, arguments, "the test");
  }
  ListBuilder result(runtime);
  for (const Value& item : iterate(runtime, input)) {
    Value tested = by_attribute ? member(runtime, item, attribute) : item;
    if ((test.empty() ? tested.truth() : apply_test(runtime, test, tested, arguments)) == wanted) {
      result.append(item);
    }
  }
  return result.value(SequenceKind::generator);
}

}  // namespace

FilterFunction find_sequence_filter(std::string_view name) {
  static const std::unordered_map<std::string_view, FilterFunction> kFilters = {
      {"dictsort", dictsort},
      {"first", first},
      {"items", items},
      {"join", join},
      {"last", last},
      {"list", list},
      {"map", map},
      {"max", extreme<true>},
      {"min", extreme<false>},
      {"reject", choose<false, false>},
      {"rejectattr", choose<true, false>},
      {"reverse", reverse},
      {"select", choose<false, true>},
      {"selectattr", choose<true, true>},
      {"sort", sort},
      {"sum", sum},
      {"unique", unique},
  };
  auto found = kFilters.find(name);
  return found == kFilters.end() ? nullptr : found->second;
}

}  // namespace snug::jinja
