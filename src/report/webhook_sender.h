// Messages on their way to one webhook, on a thread of its own: whoever sends one never waits.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <string>
#include <thread>

#include "io/http_post.h"

namespace snug {

struct SendingLimits {
  double request_seconds = 20;
  int attempts = 6;                   // for each message
  double first_wait_seconds = 2;      // before the second one; each further wait is twice as long
  double longest_wait_seconds = 300;  // where the other side asks for one
  size_t waiting_messages = 32;
  double end_seconds = 5;  // for all that waits when the run is over
};

class WebhookSender {
 public:
  using Clock = std::chrono::steady_clock;

  WebhookSender(const std::string& url, const SendingLimits& limits);
  ~WebhookSender();  // what was not sent is given up
  WebhookSender(const WebhookSender&) = delete;
  WebhookSender& operator=(const WebhookSender&) = delete;

  // A message of what may change takes the place of one of these that still waits. Where too many wait, the
  // oldest is lost.
  void send(std::string json, bool may_change = false);
  // No message comes any more: waits for those that are on their way, up to `until`.
  void finish(Clock::time_point until);

  struct Losses {
    size_t messages = 0;
    std::string reason;  // of the last one; without the URL
  };
  Losses losses() const;

 private:
  struct Message {
    std::string json;
    bool may_change = false;
  };

  void run();
  bool deliver(const Message& message);
  // Sleeps; false if there is no time for it.
  bool wait(double seconds);
  bool is_over() const;

  SendingLimits limits_;
  HttpPoster poster_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Message> waiting_;
  bool is_sending_ = false;
  bool is_closing_ = false;
  Clock::time_point last_moment_ = Clock::time_point::max();
  Losses losses_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace snug
