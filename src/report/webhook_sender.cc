// The queue and its thread.
#include "report/webhook_sender.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace snug {
namespace {

constexpr int kRequestTimeout = 408;
constexpr int kTooManyRequests = 429;
constexpr int kServerErrors = 500;

// Whether the same message may be taken later.
bool may_be_taken_later(const HttpAnswer& answer) {
  return answer.status == 0 || answer.status == kRequestTimeout || answer.status == kTooManyRequests ||
         answer.status >= kServerErrors;
}

}  // namespace

WebhookSender::WebhookSender(const std::string& url, const SendingLimits& limits)
    : limits_(limits), poster_(url), thread_([this] { run(); }) {}

WebhookSender::~WebhookSender() {
  finish(Clock::now());
  thread_.join();
}

void WebhookSender::send(std::string json, bool may_change) {
  {
    std::lock_guard lock(mutex_);
    auto older = std::find_if(waiting_.begin(), waiting_.end(),
                              [](const Message& message) { return message.may_change; });
    if (may_change && older != waiting_.end()) {
      waiting_.erase(older);
    }
    if (waiting_.size() >= limits_.waiting_messages) {
      waiting_.pop_front();
      ++losses_.messages;
    }
    waiting_.push_back({std::move(json), may_change});
  }
  changed_.notify_all();
}

void WebhookSender::finish(Clock::time_point until) {
  std::unique_lock lock(mutex_);
  is_closing_ = true;
  last_moment_ = std::min(last_moment_, until);
  changed_.notify_all();
  changed_.wait_until(lock, last_moment_, [&] { return waiting_.empty() && !is_sending_; });
}

WebhookSender::Losses WebhookSender::losses() const {
  std::lock_guard lock(mutex_);
  Losses losses = losses_;
  if (is_closing_) {
    losses.messages += waiting_.size() + (is_sending_ ? 1 : 0);
  }
  return losses;
}

bool WebhookSender::is_over() const {
  std::lock_guard lock(mutex_);
  return Clock::now() >= last_moment_;
}

void WebhookSender::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return is_closing_ || !waiting_.empty(); });
    if (waiting_.empty() || Clock::now() >= last_moment_) {
      return;
    }
    Message message = std::move(waiting_.front());
    waiting_.pop_front();
    is_sending_ = true;
    lock.unlock();
    bool is_delivered = deliver(message);
    lock.lock();
    is_sending_ = false;
    losses_.messages += is_delivered ? 0 : 1;
    changed_.notify_all();
  }
}

bool WebhookSender::deliver(const Message& message) {
  double pause = limits_.first_wait_seconds;
  for (int attempt = 1;; ++attempt) {
    HttpAnswer answer = poster_.post(message.json, limits_.request_seconds, [this] { return is_over(); });
    if (answer.is_taken()) {
      return true;
    }
    {
      std::lock_guard lock(mutex_);
      losses_.reason = answer.status == 0 ? answer.problem : fmt::format("its answer was {}", answer.status);
    }
    double seconds =
        std::min(std::max(answer.retry_after_seconds.value_or(0), pause), limits_.longest_wait_seconds);
    if (!may_be_taken_later(answer) || attempt == limits_.attempts || !wait(seconds)) {
      return false;
    }
    pause *= 2;
  }
}

bool WebhookSender::wait(double seconds) {
  Clock::time_point until =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, until, [&] { return is_closing_ && last_moment_ <= until; });
  return !is_closing_ || last_moment_ > until;
}

}  // namespace snug
