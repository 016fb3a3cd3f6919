// Greedy placement in several orders, then improvement of the best order until the loss is small.
#include "plan/placement.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>
#include <utility>

#include "plan/occupancy.h"

namespace snug {
namespace {

constexpr double kGoodEnoughLoss = 0.002;          // of the lower bound
constexpr int64_t kImprovementPairs = 60'000'000;  // of items placed: bounds the time of large plans

int ops_of(const std::vector<PlacementItem>& items) {
  int last = 0;
  for (const PlacementItem& item : items) {
    last = std::max(last, item.interval.last);
  }
  return last + 1;
}

using Order = std::vector<size_t>;

class Placer {
 public:
  explicit Placer(const std::vector<PlacementItem>& items) : items_(items), occupancy_(ops_of(items)) {
    find_lower_bound();
  }

  Placement run() {
    best_.bytes = INT64_MAX;
    Order best_order;
    for (FirstOrder one : kFirstOrders) {
      Order order = (this->*one)();
      if (place(order)) {
        best_order = std::move(order);
      }
      if (good_enough()) {
        break;
      }
    }
    improve(best_order);
    best_.lower_bound_bytes = lower_bound_;
    best_.peak_index = peak_index_;
    best_.looked_at = occupancy_.looked_at();
    return best_;
  }

 private:
  void find_lower_bound() {
    std::vector<int64_t> change(static_cast<size_t>(ops_of(items_)) + 1, 0);
    for (const PlacementItem& item : items_) {
      change[static_cast<size_t>(item.interval.first)] += item.bytes;
      change[static_cast<size_t>(item.interval.last) + 1] -= item.bytes;
    }
    int64_t live = 0;
    for (size_t index = 0; index < change.size(); ++index) {
      live += change[index];
      if (live > lower_bound_) {
        lower_bound_ = live;
        peak_index_ = static_cast<int>(index);
      }
    }
  }

  bool good_enough() const {
    return static_cast<double>(best_.bytes - lower_bound_) <=
           kGoodEnoughLoss * static_cast<double>(lower_bound_);
  }

  int64_t duration(size_t i) const { return int64_t{items_[i].interval.last} - items_[i].interval.first; }
  int64_t bytes(size_t i) const { return items_[i].bytes; }
  bool is_live_at_peak(size_t i) const {
    return items_[i].interval.first <= peak_index_ && peak_index_ <= items_[i].interval.last;
  }

  template <typename Before>
  Order sorted(const Before& before) const {
    Order order(items_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), before);
    return order;
  }

  // Stack-like programs (forward, then backward in reverse) fit without loss when what lives longest lies
  // lowest.
  Order longest_first() const {
    return sorted([&](size_t a, size_t b) { return duration(a) > duration(b); });
  }
  Order largest_first() const {
    return sorted([&](size_t a, size_t b) {
      return bytes(a) != bytes(b) ? bytes(a) > bytes(b) : duration(a) > duration(b);
    });
  }
  Order longest_at_peak_first() const {
    return sorted([&](size_t a, size_t b) {
      return is_live_at_peak(a) != is_live_at_peak(b) ? is_live_at_peak(a) : duration(a) > duration(b);
    });
  }
  Order largest_at_peak_first() const {
    return sorted([&](size_t a, size_t b) {
      return is_live_at_peak(a) != is_live_at_peak(b) ? is_live_at_peak(a) : bytes(a) > bytes(b);
    });
  }
  Order as_they_begin() const {
    return sorted([&](size_t a, size_t b) { return items_[a].interval.first < items_[b].interval.first; });
  }

  using FirstOrder = Order (Placer::*)() const;
  static constexpr std::array<FirstOrder, 5> kFirstOrders = {
      &Placer::longest_first, &Placer::largest_first, &Placer::longest_at_peak_first,
      &Placer::largest_at_peak_first, &Placer::as_they_begin};

  // Places the items in `order`, each at the lowest offset that is free throughout its life. Keeps the
  // result if it is the best so far; where it cannot be, the rest is not placed.
  bool place(const Order& order) {
    std::vector<int64_t> offsets(items_.size(), 0);
    occupancy_.clear();
    pairs_ += std::ssize(order) * (std::ssize(order) - 1) / 2;
    int64_t total = 0;
    for (size_t i : order) {
      const auto& [interval, bytes] = items_[i];
      if (bytes > 0) {
        offsets[i] = occupancy_.lowest_free(interval, bytes);
        occupancy_.take(interval, offsets[i], bytes);
      }
      total = std::max(total, offsets[i] + bytes);
      if (total >= best_.bytes) {
        return false;
      }
    }
    best_.bytes = total;
    best_.offsets = std::move(offsets);
    return true;
  }

  // The item that reaches the top was placed too late: it goes to the front of the order. Repeated, this
  // finds an order without the conflict, or ends when enough was tried.
  void improve(Order order) {
    pairs_ = 0;
    std::vector<int> promoted(items_.size(), 0);
    while (!good_enough() && pairs_ < kImprovementPairs) {
      size_t top = highest_item(promoted);
      if (top == items_.size()) {
        return;
      }
      ++promoted[top];
      auto position = std::find(order.begin(), order.end(), top);
      // First half-way, then to the very front.
      auto target = promoted[top] == 1 ? order.begin() + (position - order.begin()) / 2 : order.begin();
      std::rotate(target, position, position + 1);
      place(order);
    }
  }

  size_t highest_item(const std::vector<int>& promoted) const {
    size_t highest = items_.size();
    int64_t highest_end = 0;
    for (size_t i = 0; i < items_.size(); ++i) {
      int64_t end = best_.offsets[i] + items_[i].bytes;
      if (promoted[i] < 2 && end > highest_end) {
        highest = i;
        highest_end = end;
      }
    }
    return highest;
  }

  const std::vector<PlacementItem>& items_;
  int64_t lower_bound_ = 0;
  int peak_index_ = 0;
  Placement best_;
  Occupancy occupancy_;
  int64_t pairs_ = 0;
};

}  // namespace

Placement place(const std::vector<PlacementItem>& items) {
  if (items.empty()) {
    return {};
  }
  return Placer(items).run();
}

}  // namespace snug
