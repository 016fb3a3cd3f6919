// Posting a message over HTTP. The address is a secret: it is in no text that comes back.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace snug {

struct HttpAnswer {
  int status = 0;                             // 0: there was none
  std::string problem;                        // why not, then
  std::optional<double> retry_after_seconds;  // that it asks for

  bool is_taken() const { return status >= 200 && status < 300; }
};

// Of one thread. The connection is kept between messages where the other side keeps it.
class HttpPoster {
 public:
  explicit HttpPoster(const std::string& url);

  // Comes back after `seconds` at the latest, and within about a second once `is_given_up` says so.
  HttpAnswer post(const std::string& json, double seconds, const std::function<bool()>& is_given_up);

 private:
  std::unique_ptr<void, void (*)(void*)> handle_;
};

}  // namespace snug
