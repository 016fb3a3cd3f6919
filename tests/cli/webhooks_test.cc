// A run that tells webhooks of itself: what arrives, what does not disturb it, and that no file has the URL.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <regex>

#include "support/child_snug.h"
#include "support/http_server.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSecret = "/hooks/T0P-5ECRET";

class WebhookRun : public testing::Test {
 protected:
  ~WebhookRun() override { unsetenv("SNUG_TEST_HOOK"); }

  fs::path run() const { return folder_.path() / "run"; }
  std::vector<std::string> arguments(const std::vector<std::string>& settings = {}) const {
    std::vector<std::string> all = {"train", source_path("recipes/ship_log.yml")};
    for (const std::string& set :
         {"output_dir=" + run().string(), "data.cache_dir=" + (folder_.path() / "cache").string(),
          std::string("data.max_samples=48"), std::string("logging.logging_steps=1"),
          std::string("training.max_steps=6"), std::string("training.warmup_ratio=0"),
          std::string("training.eval_steps=3"), std::string("training.save_steps=3"),
          std::string("logging.webhooks=[{kind: json, url_env: SNUG_TEST_HOOK}]"),
          std::string("logging.webhook_minutes=0")}) {
      all.insert(all.end(), {"--set", set});
    }
    for (const std::string& set : settings) {
      all.insert(all.end(), {"--set", set});
    }
    return all;
  }
  CommandResult train(const std::string& url, const std::vector<std::string>& settings = {},
                      const std::string& more = "--json") const {
    setenv("SNUG_TEST_HOOK", url.c_str(), 1);
    std::vector<std::string> all = arguments(settings);
    all.push_back(more);
    return run_snug(all);
  }
  static std::vector<std::string> events(const HttpServer& server) {
    std::vector<std::string> names;
    for (const HttpServer::Request& request : server.requests()) {
      std::string name = parse_json(request.body, "request")["event"];
      if (names.empty() || names.back() != name) {
        names.push_back(name);
      }
    }
    return names;
  }
  int count(const std::string& expression) const {
    std::ifstream log(run() / "run.log");
    int found = 0;
    for (std::string line; std::getline(log, line);) {
      found += std::regex_search(line, std::regex(expression)) ? 1 : 0;
    }
    return found;
  }
  // Neither a file nor what was printed.
  void expect_no_secret(const CommandResult& result) const {
    int files = 0;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder_.path())) {
      if (entry.is_regular_file()) {
        ++files;
        EXPECT_EQ(read_text_file(entry.path()).find("5ECRET"), std::string::npos) << entry.path();
      }
    }
    EXPECT_GT(files, 10);
    EXPECT_EQ((result.output + result.errors).find("5ECRET"), std::string::npos);
  }

  TemporaryFolder folder_;
};

TEST_F(WebhookRun, IsTold) {
  HttpServer server;
  CommandResult result = train(server.url(kSecret));
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(result.errors, "");
  std::vector<std::string> told = events(server);
  ASSERT_GE(told.size(), 4U);
  EXPECT_EQ(told.front(), "start");
  EXPECT_NE(std::find(told.begin(), told.end(), "progress"), told.end());
  EXPECT_NE(std::find(told.begin(), told.end(), "best"), told.end());
  EXPECT_EQ(told.back(), "end");
  EXPECT_EQ(server.requests().front().path, kSecret);
  expect_no_secret(result);
  // A run that goes on, by another address, in a file this time.
  HttpServer other;
  TemporaryFolder elsewhere;
  write_file_atomically(elsewhere.path() / "url", other.url(kSecret) + "\n");
  result =
      train("", {"logging.webhooks=[{kind: discord, url_file: " + (elsewhere.path() / "url").string() + "}]"},
            "--resume=" + (run() / "checkpoint-3").string());
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  ASSERT_FALSE(other.requests().empty());
  std::string content = parse_json(other.requests().front().body, "request")["content"];
  EXPECT_NE(content.find("3 of them are done"), std::string::npos) << content;
  expect_no_secret(result);
}

TEST_F(WebhookRun, IsNotDisturbedByAnEndpointThatIsNoGood) {
  ASSERT_EQ(train("http://unused", {"logging.webhooks=null"}).exit_code, 0);
  std::string undisturbed = read_text_file(run() / "adapter_model.safetensors");
  std::string dead_url;
  {
    HttpServer dead;
    dead_url = dead.url(kSecret);
  }
  HttpServer failing(
      [](const HttpServer::Request&) { return HttpServer::status("500 Internal Server Error"); });
  HttpServer hanging([&](const HttpServer::Request&) {
    hanging.gate.pass();
    return HttpServer::status("204 No Content");
  });
  for (const std::string& url : {dead_url, failing.url(kSecret), hanging.url(kSecret)}) {
    CommandResult result = train(url, {}, "--overwrite");
    ASSERT_EQ(result.exit_code, 0) << result.errors;
    EXPECT_EQ(read_text_file(run() / "adapter_model.safetensors"), undisturbed);
    EXPECT_EQ(count("warning: webhook 1 \\(json, SNUG_TEST_HOOK\\) did not take"), 1);
    EXPECT_EQ(count("warning:"), 1);
    expect_no_secret(result);
  }
  EXPECT_FALSE(failing.requests().empty());
  EXPECT_FALSE(hanging.requests().empty());
}

TEST_F(WebhookRun, ThatFailsIsTold) {
  HttpServer server;
  CommandResult result =
      train(server.url(kSecret), {"lora.r=64", "lora.lora_alpha=1.92e40", "training.max_steps=100"});
  EXPECT_EQ(result.exit_code, 2);
  ASSERT_FALSE(server.requests().empty());
  Json last = parse_json(server.requests().back().body, "request");
  EXPECT_EQ(last["event"], "failure");
  EXPECT_NE(last["error"].get<std::string>().find("Nothing was saved"), std::string::npos);
  EXPECT_EQ(count("  failed: .*Nothing was saved"), 1);
  expect_no_secret(result);
}

TEST_F(WebhookRun, ThatIsStoppedByASignalIsTold) {
  HttpServer server;
  setenv("SNUG_TEST_HOOK", server.url(kSecret).c_str(), 1);
  ChildSnug child(arguments({"training.max_steps=1000000", "training.eval_steps=0"}), folder_.path() / "log");
  child.wait_until([&] { return server.requests().size() >= 3; });
  child.send(SIGTERM);
  EXPECT_EQ(child.wait(), 4) << child.output();
  ASSERT_FALSE(server.requests().empty());
  Json last = parse_json(server.requests().back().body, "request");
  EXPECT_EQ(last["event"], "end");
  EXPECT_EQ(last["interrupted"], true);
  EXPECT_NE(last["text"].get<std::string>().find("it can go on"), std::string::npos);
}

TEST_F(WebhookRun, NeedsItsUrlBeforeItBegins) {
  unsetenv("SNUG_TEST_HOOK");
  CommandResult result = run_snug(arguments());
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.errors.find("SNUG_TEST_HOOK is not set"), std::string::npos) << result.errors;
  EXPECT_FALSE(fs::exists(run()));
  // On the command line it is not repeated either.
  result = run_snug(arguments({"logging.webhooks=[{kind: slack, url: 'https://chat.example/T0P-5ECRET'}]"}));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.errors.find("is a secret"), std::string::npos) << result.errors;
  EXPECT_EQ(result.errors.find("5ECRET"), std::string::npos) << result.errors;
}

}  // namespace
}  // namespace snug
