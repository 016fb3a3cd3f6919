// A server on this machine for tests: keeps what it is sent, and answers as it is told, or not at all.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace snug {

// A door that answers can wait at.
class Gate {
 public:
  void open() {
    {
      std::lock_guard lock(mutex_);
      is_open_ = true;
    }
    opened_.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex_);
    opened_.wait(lock, [&] { return is_open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable opened_;
  bool is_open_ = false;
};

class HttpServer {
 public:
  struct Request {
    std::string path;
    std::string body;
    size_t number = 0;  // from 0
  };
  // The whole answer: "HTTP/1.1 204 No Content\r\n...". On a thread of the connection's own: it may wait.
  using Answer = std::function<std::string(const Request&)>;

  static std::string status(const std::string& line, const std::string& headers = "") {
    return "HTTP/1.1 " + line + "\r\n" + headers + "Content-Length: 0\r\nConnection: close\r\n\r\n";
  }

  explicit HttpServer(Answer answer = [](const Request&) { return status("204 No Content"); })
      : answer_(std::move(answer)) {
    listening_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    bind(listening_, reinterpret_cast<sockaddr*>(&address), size);
    listen(listening_, 64);
    getsockname(listening_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    accepting_ = std::thread([this] { accept_all(); });
  }
  ~HttpServer() {
    gate.open();
    shutdown(listening_, SHUT_RDWR);
    accepting_.join();
    close(listening_);
    for (std::thread& connection : connections_) {
      connection.join();
    }
  }
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  Gate gate;  // opened at the end, so that no connection waits for ever

  std::string url(const std::string& path) const {
    return "http://127.0.0.1:" + std::to_string(port_) + path;
  }
  std::vector<Request> requests() const {
    std::lock_guard lock(mutex_);
    return requests_;
  }
  void wait_for_requests(size_t count) const {
    std::unique_lock lock(mutex_);
    came_.wait(lock, [&] { return requests_.size() >= count; });
  }

 private:
  void accept_all() {
    for (int one = accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC); one >= 0;
         one = accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC)) {
      connections_.emplace_back([this, one] {
        serve(one);
        close(one);
      });
    }
  }
  void serve(int connection) {
    std::string text;
    size_t wanted = std::string::npos;
    size_t body_at = std::string::npos;
    while (text.size() < wanted) {
      char buffer[4096];
      ssize_t count = recv(connection, buffer, sizeof(buffer), 0);
      if (count <= 0) {
        return;
      }
      text.append(buffer, static_cast<size_t>(count));
      body_at = text.find("\r\n\r\n");
      if (size_t length = text.find("Content-Length: "); body_at != std::string::npos) {
        wanted = body_at + 4 + (length < body_at ? std::stoul(text.substr(length + 16)) : 0);
      }
    }
    Request request{.path = text.substr(5, text.find(' ', 5) - 5), .body = text.substr(body_at + 4)};
    {
      std::lock_guard lock(mutex_);
      request.number = requests_.size();
      requests_.push_back(request);
    }
    came_.notify_all();
    std::string answer = answer_(request);
    [[maybe_unused]] ssize_t ignored = ::send(connection, answer.data(), answer.size(), MSG_NOSIGNAL);
  }

  Answer answer_;
  int listening_ = -1;
  int port_ = 0;
  mutable std::mutex mutex_;
  mutable std::condition_variable came_;
  std::vector<Request> requests_;
  std::list<std::thread> connections_;  // of the accepting thread until it ends
  std::thread accepting_;
};

}  // namespace snug
