// The server of `snug watch`: one page, and what it asks for. It answers whoever may ask, and nobody else.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "watch/run_feed.h"

namespace snug {

// Whether only this machine can reach what is bound to an address.
bool is_loopback(const std::string& address);
// 128 random bits.
std::string new_token();

class WebServer {
 public:
  struct Options {
    std::string address = "127.0.0.1";
    std::optional<int> port = std::nullopt;  // 0: any that is free; nothing: the usual one, or one after it
    std::string token = "";                  // "": whoever reaches the address may ask
  };
  // Takes the port. Throws environment_error, with a way out, if it cannot.
  WebServer(RunFeed& feed, const Options& options);
  ~WebServer();
  WebServer(const WebServer&) = delete;
  WebServer& operator=(const WebServer&) = delete;

  int port() const;
  void serve(const std::function<bool()>& should_stop);

 private:
  struct Parts;  // keeps the library's header out of this one
  std::unique_ptr<Parts> parts_;
};

}  // namespace snug
