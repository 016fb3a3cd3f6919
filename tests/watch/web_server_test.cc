// Who gets an answer from the server of `snug watch`, and who does not.
#include "watch/web_server.h"

#include <gtest/gtest.h>
#include <httplib.h>

#include <atomic>
#include <thread>

#include "base/error.h"
#include "support/temporary_folder.h"

namespace snug {
namespace {

class Serving {
 public:
  explicit Serving(WebServer::Options options)
      : feed_({folder_.path()}), server_(feed_, options), client_("127.0.0.1", server_.port()) {
    thread_ = std::thread([this] { server_.serve([this] { return done_.load(); }); });
    while (!client_.Get("/")) {  // until it listens
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  ~Serving() {
    done_ = true;
    thread_.join();
  }
  int status(const std::string& path, const httplib::Headers& headers = {}) {
    auto answer = client_.Get(path, headers);
    return answer ? answer->status : -1;
  }
  httplib::Client& client() { return client_; }
  int port() const { return server_.port(); }
  RunFeed& feed() { return feed_; }

 private:
  TemporaryFolder folder_;
  RunFeed feed_;
  WebServer server_;
  httplib::Client client_;
  std::atomic<bool> done_ = false;
  std::thread thread_;
};

TEST(WebServer, AnswersOnLoopbackUnderItsOwnNameOnly) {
  Serving serving({.port = 0});
  EXPECT_EQ(serving.status("/"), 200);
  EXPECT_EQ(serving.status("/api/runs", {{"Host", "localhost:1234"}}), 200);
  EXPECT_EQ(serving.status("/api/runs", {{"Host", "[::1]:1234"}}), 200);
  EXPECT_EQ(serving.status("/api/runs", {{"Host", "evil.example"}}), 403);
  EXPECT_EQ(serving.status("/api/runs", {{"Host", "localhost.evil.example:80"}}), 403);
  EXPECT_EQ(serving.status("/api/rows?run=../../etc/passwd"), 404);
  EXPECT_EQ(serving.status("/api/plan?run="), 404);
  EXPECT_EQ(serving.status("/elsewhere"), 404);
  auto page = serving.client().Get("/");
  std::string policy = page->get_header_value("Content-Security-Policy");
  EXPECT_EQ(policy.rfind("default-src 'none'", 0), 0U) << policy;
  EXPECT_EQ(policy.find("http"), std::string::npos) << policy;
}

TEST(WebServer, WithATokenNothingIsAnsweredWithoutIt) {
  std::string token = new_token();
  EXPECT_EQ(token.size(), 32U);
  EXPECT_NE(token, new_token());
  Serving serving({.port = 0, .token = token});
  std::string wrong = token;
  wrong.back() = wrong.back() == '0' ? '1' : '0';
  for (const std::string& path :
       {std::string("/"), std::string("/api/runs"), std::string("/api/rows"), "/?token=" + wrong,
        "/?token=" + token.substr(1), "/?token=" + token + "0"}) {
    EXPECT_EQ(serving.status(path), 403) << path;
  }
  EXPECT_EQ(serving.status("/?token=" + token), 200);
  EXPECT_EQ(serving.status("/api/runs", {{"X-Snug-Token", token}}), 200);
  EXPECT_EQ(serving.status("/api/runs", {{"X-Snug-Token", wrong}}), 403);
  EXPECT_EQ(serving.status("/api/runs", {{"X-Snug-Token", token}, {"Host", "my-machine"}}), 200);
}

TEST(WebServer, APortThatIsTakenIsNotShared) {
  Serving serving({.port = 0});
  try {
    WebServer second(serving.feed(), {.port = serving.port()});
    FAIL() << "two servers at port " << serving.port();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("--port 0"), std::string::npos) << error.what();
  }
  WebServer usual(serving.feed(), {});
  WebServer next(serving.feed(), {});
  EXPECT_NE(usual.port(), next.port());
}

TEST(WebServer, KnowsWhichAddressesOthersReach) {
  for (const char* address : {"127.0.0.1", "127.1.2.3", "::1", "localhost"}) {
    EXPECT_TRUE(is_loopback(address)) << address;
  }
  for (const char* address : {"0.0.0.0", "::", "192.168.1.2", "my-machine", ""}) {
    EXPECT_FALSE(is_loopback(address)) << address;
  }
}

}  // namespace
}  // namespace snug
