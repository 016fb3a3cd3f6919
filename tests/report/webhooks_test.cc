// Messages about a run: what they say, and that a run never waits for whoever should take them.
#include "report/webhooks.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdlib>

#include "base/error.h"
#include "io/atomic_file.h"
#include "support/http_server.h"
#include "support/temporary_folder.h"

namespace snug {
namespace {

constexpr const char* kSecret = "/hooks/T0P-5ECRET";

// No wait between attempts, and an hour for each: who waits for an answer hangs.
constexpr SendingLimits kPatient = {.request_seconds = 3600, .first_wait_seconds = 0, .end_seconds = 600};

Json body_of(const HttpServer::Request& request) {
  return parse_json(request.body, "request");
}

Recipe recipe_for(size_t webhooks) {
  Recipe recipe;
  recipe.output_dir = "runs/ship";
  recipe.logging.webhook_minutes = 0;
  recipe.logging.logging_steps = 1;
  recipe.logging.webhooks.assign(webhooks, {.kind = WebhookKind::json, .url_env = "HOOK"});
  return recipe;
}

class Warnings : public RunListener {
 public:
  void on_warning(const std::string& text) override { texts.push_back(text); }
  std::vector<std::string> texts;
};

TEST(WebhookText, NobodyIsMentionedAndNothingIsFormatted) {
  RunMessage message{.event = WebhookEvent::trouble,
                     .run = "ship_log",
                     .text = "@everyone <@123> <!channel> *bold* `code` a&b \x1b[31m"};
  Json discord = parse_json(webhook_body(WebhookKind::discord, message, 1), "body");
  // discord.com/developers/docs: an empty list of what is parsed mentions nobody.
  EXPECT_EQ(discord["allowed_mentions"], Json({{"parse", Json::array()}}));
  EXPECT_EQ(discord["content"],
            "ship\\_log\\: \\@everyone \\<\\@123\\> \\<!channel\\> \\*bold\\* \\`code\\` a&b \\\\x1b\\[31m");
  // api.slack.com: these three are what has to be escaped.
  Json slack = parse_json(webhook_body(WebhookKind::slack, message, 1), "body");
  EXPECT_EQ(slack["text"],
            "ship_log: @everyone &lt;@123&gt; &lt;!channel&gt; *bold* `code` a&amp;b \\x1b[31m");
  EXPECT_EQ(slack["mrkdwn"], false);
}

TEST(WebhookText, IsNoLongerThanDiscordTakes) {
  RunMessage message{.event = WebhookEvent::failure, .run = "r", .text = std::string(5000, '*')};
  Json body = parse_json(webhook_body(WebhookKind::discord, message, 1), "body");
  EXPECT_LE(body["content"].get<std::string>().size(), 2000U);
  message.text.clear();
  for (int i = 0; i < 900; ++i) {
    message.text += "ü";
  }
  EXPECT_NO_THROW(parse_json(webhook_body(WebhookKind::slack, message, 1), "body"));
}

TEST(WebhookSender, TriesAgainWhereThatMayHelp) {
  HttpServer server([](const HttpServer::Request& request) {
    return HttpServer::status(request.number == 0   ? "500 Internal Server Error"
                              : request.number == 1 ? "429 Too Many Requests"
                                                    : "200 OK");
  });
  WebhookSender sender(server.url(kSecret), kPatient);
  sender.send("{\"a\":1}");
  sender.send("{\"a\":2}");
  sender.finish(WebhookSender::Clock::now() + std::chrono::hours(1));
  EXPECT_EQ(sender.losses().messages, 0U);
  ASSERT_EQ(server.requests().size(), 4U);
  EXPECT_EQ(server.requests()[2].body, "{\"a\":1}");
  EXPECT_EQ(server.requests()[3].body, "{\"a\":2}");
  EXPECT_EQ(server.requests()[3].path, kSecret);
}

TEST(WebhookSender, WaitsAsLongAsItIsAskedTo) {
  std::array<std::atomic<WebhookSender::Clock::time_point>, 2> times;
  HttpServer server([&](const HttpServer::Request& request) {
    times.at(request.number) = WebhookSender::Clock::now();
    return request.number == 0 ? HttpServer::status("429 Too Many Requests", "Retry-After: 2\r\n")
                               : HttpServer::status("204 No Content");
  });
  WebhookSender sender(server.url("/"), kPatient);
  sender.send("{}");
  sender.finish(WebhookSender::Clock::now() + std::chrono::hours(1));
  ASSERT_EQ(server.requests().size(), 2U);
  EXPECT_GE(times[1].load() - times[0].load(), std::chrono::seconds(2));
}

TEST(WebhookSender, TakesARefusalForOne) {
  HttpServer server([](const HttpServer::Request&) { return HttpServer::status("404 Not Found"); });
  WebhookSender sender(server.url(kSecret), kPatient);
  sender.send("{}");
  sender.finish(WebhookSender::Clock::now() + std::chrono::hours(1));
  EXPECT_EQ(server.requests().size(), 1U);
  EXPECT_EQ(sender.losses().messages, 1U);
  EXPECT_EQ(sender.losses().reason, "its answer was 404");
}

TEST(WebhookSender, KeepsNoMoreThanItMay) {
  HttpServer server([&](const HttpServer::Request&) {
    server.gate.pass();
    return HttpServer::status("204 No Content");
  });
  WebhookSender sender(server.url("/"), kPatient);
  sender.send("first");
  server.wait_for_requests(1);
  for (int i = 0; i < 100; ++i) {
    sender.send("progress " + std::to_string(i), true);
  }
  for (int i = 0; i < 100; ++i) {
    sender.send(std::to_string(i));
  }
  EXPECT_EQ(sender.losses().messages, 101U - kPatient.waiting_messages) << "one of progress, and 100 others";
  server.gate.open();
  sender.finish(WebhookSender::Clock::now() + std::chrono::hours(1));
  EXPECT_EQ(server.requests().size(), 1 + kPatient.waiting_messages);
  EXPECT_EQ(server.requests().back().body, "99");
}

// All steps are told while the server has answered nothing; had one waited, it would have waited for an hour.
TEST(Webhooks, ARunNeverWaits) {
  HttpServer server([&](const HttpServer::Request&) {
    server.gate.pass();
    return HttpServer::status("204 No Content");
  });
  RunEvents events;
  Warnings warnings;
  events.listen(warnings);
  SendingLimits limits = kPatient;
  limits.end_seconds = 0.1;
  {
    Webhooks webhooks(recipe_for(2), {server.url(kSecret), server.url(kSecret)}, events, limits);
    events.listen(webhooks);
    events.begin({.folder = {}, .total_steps = 2000});
    server.wait_for_requests(2);
    for (int64_t step = 1; step <= 2000; ++step) {
      events.step({.step = step, .total_steps = 2000, .loss = 2, .tokens = 100, .seconds = 0.01});
      events.best({.step = step, .value = 1.0 / static_cast<double>(step)});
    }
    EXPECT_EQ(server.requests().size(), 2U);
    EXPECT_TRUE(warnings.texts.empty());
  }
  ASSERT_EQ(warnings.texts.size(), 2U) << "one for each";
  EXPECT_NE(warnings.texts[1].find("webhook 2 (json, HOOK) did not take"), std::string::npos);
  EXPECT_EQ(warnings.texts[1].find(kSecret), std::string::npos);
}

TEST(Webhooks, ADeadEndpointIsOneWarning) {
  std::string url;
  {
    HttpServer server;
    url = server.url(kSecret);
  }
  RunEvents events;
  Warnings warnings;
  events.listen(warnings);
  {
    Webhooks webhooks(recipe_for(1), {url}, events, kPatient);
    events.listen(webhooks);
    events.begin({.folder = {}, .total_steps = 3});
    for (int64_t step = 1; step <= 3; ++step) {
      events.step({.step = step, .total_steps = 3, .tokens = 1, .seconds = 1});
    }
  }
  ASSERT_EQ(warnings.texts.size(), 1U);
  EXPECT_EQ(warnings.texts[0].find(kSecret), std::string::npos);
}

TEST(Webhooks, TellWhatHappens) {
  HttpServer server;
  RunEvents events;
  {
    Webhooks webhooks(recipe_for(1), {server.url("/")}, events, kPatient);
    events.listen(webhooks);
    events.begin({.folder = {},
                  .goes_on = true,
                  .total_steps = 60,
                  .steps_done = 10,
                  .best = BestEvaluation{.step = 10, .value = 3.5}});
    server.wait_for_requests(1);
    events.step({.step = 11, .total_steps = 60, .loss = 2.5, .tokens = 4000, .seconds = 2});
    server.wait_for_requests(2);
    events.best({.step = 11, .value = 2.25});
    server.wait_for_requests(3);
    events.trouble({.name = "the disk stalls", .what = "it stalls", .remedy = "Look at it"});
    events.warn("the checkpoint of step 5 was not saved");
    TrainSummary summary;
    summary.steps = 60;
    summary.total_steps = 60;
    summary.seconds = 187;
    summary.first_loss = 5;
    summary.last_loss = 1.5;
    events.end(summary);
    EXPECT_THROW(events.telling_failure([]() -> int { throw environment_error("the disk is full"); }), Error);
  }
  std::vector<HttpServer::Request> requests = server.requests();
  ASSERT_EQ(requests.size(), 7U);
  Json start = body_of(requests[0]);
  EXPECT_EQ(start["event"], "start");
  EXPECT_NE(start["text"].get<std::string>().find("60 steps, 10 of them are done"), std::string::npos);
  Json progress = body_of(requests[1]);
  EXPECT_EQ(progress["event"], "progress");
  EXPECT_EQ(progress["text"],
            "ship: step 11/60 · loss 2.5000 · 2,000 tok/s · 1m 38s left · best eval_loss 3.5000 (step 10)");
  EXPECT_EQ(progress["seconds_left"], 98);
  EXPECT_EQ(body_of(requests[2])["text"], "ship: best evaluation so far: eval_loss 2.2500 at 11/60");
  EXPECT_EQ(body_of(requests[3])["text"], "ship: trouble at step 11/60: it stalls. Look at it");
  EXPECT_EQ(body_of(requests[3])["remedy"], "Look at it");
  EXPECT_EQ(body_of(requests[4])["event"], "trouble");
  EXPECT_EQ(body_of(requests[5])["text"],
            "ship: done: 60 of 60 steps in 3m 07s · loss 5.0000 → 1.5000 · best eval_loss 2.2500 (step 11)");
  EXPECT_EQ(body_of(requests[6])["event"], "failure");
  EXPECT_EQ(body_of(requests[6])["text"], "ship: FAILED at step 11/60: the disk is full");
}

TEST(Webhooks, TellOnlyWhatIsWanted) {
  HttpServer server;
  RunEvents events;
  Recipe recipe = recipe_for(1);
  recipe.logging.webhooks[0].events = {WebhookEvent::failure};
  {
    Webhooks webhooks(recipe, {server.url("/")}, events, kPatient);
    events.listen(webhooks);
    events.begin({.folder = {}, .total_steps = 1});
    events.step({.step = 1, .total_steps = 1, .tokens = 1, .seconds = 1});
    events.end({});
  }
  EXPECT_TRUE(server.requests().empty());
}

TEST(Webhooks, UrlsComeFromTheEnvironmentOrAFile) {
  TemporaryFolder folder;
  std::string file = (folder.path() / "url").string();
  write_file_atomically(file, "  https://chat.example/hooks/SECRET\n");
  setenv("SNUG_TEST_HOOK", "http://127.0.0.1/x", 1);
  LoggingSection logging;
  logging.webhooks = {{.url_env = "SNUG_TEST_HOOK"}, {.url_file = file}};
  EXPECT_EQ(read_webhook_urls(logging),
            (std::vector<std::string>{"http://127.0.0.1/x", "https://chat.example/hooks/SECRET"}));
  write_file_atomically(file, "chat.example/hooks/SECRET\n");
  setenv("SNUG_TEST_HOOK", "SECRET", 1);
  for (const Webhook& webhook : logging.webhooks) {
    LoggingSection one;
    one.webhooks = {webhook};
    try {
      read_webhook_urls(one);
      FAIL();
    } catch (const Error& error) {
      std::string text = error.what();
      EXPECT_EQ(text.find("SECRET"), std::string::npos) << text;
      EXPECT_NE(text.find(webhook.url_env.empty() ? file : webhook.url_env), std::string::npos) << text;
    }
  }
  unsetenv("SNUG_TEST_HOOK");
  logging.webhooks.resize(1);
  EXPECT_THROW(read_webhook_urls(logging), Error);
}

}  // namespace
}  // namespace snug
