// The server, by cpp-httplib. No other file includes it: it takes seconds to compile.
#include "watch/web_server.h"

#include <fmt/format.h>
#include <httplib.h>
#include <sys/random.h>

#include <array>
#include <charconv>
#include <chrono>
#include <thread>

#include "base/error.h"
#include "io/printable.h"
#include "report/pages.h"

namespace snug {
namespace {

constexpr int kUsualPort = 8788;
constexpr int kPortsToTry = 20;
constexpr int kSecondsToAnswer = 10;
constexpr int kSecondsBetweenRequests = 2;  // for which a connection stays open, also at the end
constexpr int kPageAsksEvery = 2000;        // milliseconds

// Nothing comes from elsewhere, and nothing else may show this page in a frame.
constexpr const char* kPolicy =
    "default-src 'none'; connect-src 'self'; img-src data:; style-src 'unsafe-inline'; script-src "
    "'unsafe-inline'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

// In a time that does not depend on where they differ.
bool is_same_secret(std::string_view given, std::string_view wanted) {
  unsigned difference = given.size() == wanted.size() ? 0 : 1;
  for (size_t i = 0; i < wanted.size(); ++i) {
    char other = i < given.size() ? given[i] : '\0';
    difference |= static_cast<unsigned char>(other) ^ static_cast<unsigned char>(wanted[i]);
  }
  return difference == 0;
}

std::string_view without_port(std::string_view host) {
  size_t colon = host.rfind(':');
  bool has_port = colon != std::string_view::npos && host.find(']', colon) == std::string_view::npos;
  return has_port ? host.substr(0, colon) : host;
}

// A page of somebody else whose name leads here (DNS rebinding) says so in its requests.
bool is_own_name(std::string_view host, const std::string& address) {
  std::string_view name = without_port(host);
  return name == "localhost" || name == "127.0.0.1" || name == "[::1]" || name == address;
}

int64_t number_in(const httplib::Request& request, const char* name) {
  std::string text = request.get_param_value(name);
  int64_t value = 0;
  auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  return problem == std::errc() && end == text.data() + text.size() ? value : 0;
}

void answer(httplib::Response& response, const std::optional<Json>& json) {
  if (!json) {
    response.status = 404;
    response.set_content("no such run\n", "text/plain");
    return;
  }
  response.set_content(json->dump(-1, ' ', false, Json::error_handler_t::replace), "application/json");
}

// A file that cannot be read now is no reason to end.
template <typename Ask>
httplib::Server::Handler answering(Ask ask) {
  return [ask](const httplib::Request& request, httplib::Response& response) {
    try {
      answer(response, std::optional<Json>(ask(request)));
    } catch (const std::exception& error) {
      response.status = 500;
      response.set_content(printable(error.what(), 400) + "\n", "text/plain");
    }
  };
}

}  // namespace

struct WebServer::Parts {
  httplib::Server server;
  int port = 0;
};

bool is_loopback(const std::string& address) {
  return address == "localhost" || address == "::1" || address.starts_with("127.");
}

std::string new_token() {
  std::array<unsigned char, 16> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw environment_error("the system gives no random numbers, so there can be no token");
  }
  std::string text;
  for (unsigned char byte : bytes) {
    text += fmt::format("{:02x}", byte);
  }
  return text;
}

WebServer::WebServer(RunFeed& feed, const Options& options) : parts_(std::make_unique<Parts>()) {
  httplib::Server& server = parts_->server;
  // By default the library shares a port with whoever shares it too.
  server.set_socket_options([](socket_t socket) {
    int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  server.set_read_timeout(kSecondsToAnswer);
  server.set_write_timeout(kSecondsToAnswer);
  server.set_keep_alive_timeout(kSecondsBetweenRequests);
  server.set_payload_max_length(1 << 10);
  server.set_default_headers({{"Content-Security-Policy", kPolicy},
                              {"X-Content-Type-Options", "nosniff"},
                              {"X-Frame-Options", "DENY"},
                              {"Referrer-Policy", "no-referrer"},
                              {"Cache-Control", "no-store"}});
  server.set_pre_routing_handler([options](const httplib::Request& request, httplib::Response& response) {
    std::string given = request.has_header("X-Snug-Token") ? request.get_header_value("X-Snug-Token")
                                                           : request.get_param_value("token");
    // Who has the token may call this machine what they like.
    bool may_ask = options.token.empty() ? is_own_name(request.get_header_value("Host"), options.address)
                                         : is_same_secret(given, options.token);
    if (may_ask) {
      return httplib::Server::HandlerResponse::Unhandled;
    }
    response.status = 403;
    response.set_content(options.token.empty()
                             ? "snug watch answers under localhost only\n"
                             : "snug watch needs the token that stands in the address which it printed\n",
                         "text/plain");
    return httplib::Server::HandlerResponse::Handled;
  });
  server.Get("/", [](const httplib::Request&, httplib::Response& response) {
    response.set_content(page_with(kPage_watch, {{"interval_ms", kPageAsksEvery}}),
                         "text/html; charset=utf-8");
  });
  server.Get("/api/runs", answering([&feed](const httplib::Request&) { return feed.runs(); }));
  server.Get("/api/rows", answering([&feed](const httplib::Request& request) {
               return feed.rows(request.get_param_value("run"), number_in(request, "offset"),
                                request.get_param_value("mark"));
             }));
  server.Get("/api/plan", answering([&feed](const httplib::Request& request) {
               return feed.plan(request.get_param_value("run"));
             }));

  const std::string& address = options.address;
  int first = options.port.value_or(kUsualPort);
  int last = options.port ? first : first + kPortsToTry - 1;
  if (first == 0) {
    int port = server.bind_to_any_port(address);
    parts_->port = std::max(port, 0);
  }
  for (int port = first; port <= last && parts_->port == 0 && first > 0; ++port) {
    parts_->port = server.bind_to_port(address, port) ? port : 0;
  }
  if (parts_->port == 0) {
    throw environment_error(fmt::format(
        "{}: port {} cannot be taken: another program has it, or the address is not of this machine; give "
        "another one (--port 0 takes any that is free)",
        in_quotes(address), first == last ? fmt::format("{}", first) : fmt::format("{} to {}", first, last)));
  }
}

WebServer::~WebServer() = default;

int WebServer::port() const {
  return parts_->port;
}

void WebServer::serve(const std::function<bool()>& should_stop) {
  std::thread listening([this] { parts_->server.listen_after_bind(); });
  while (!should_stop()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  parts_->server.stop();
  listening.join();
}

}  // namespace snug
