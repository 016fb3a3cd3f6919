// By libcurl.
#include "io/http_post.h"

#include <curl/curl.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <mutex>

#include "base/check.h"

namespace snug {
namespace {

constexpr long kConnectMilliseconds = 10'000;

void start_curl() {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
}

// libcurl knows one place, that of the distribution it was built for; a bundle runs on others.
const char* authorities_file() {
  constexpr std::array kPlaces = {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                                  "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"};
  for (const char* variable : {"CURL_CA_BUNDLE", "SSL_CERT_FILE"}) {
    if (const char* path = std::getenv(variable); path != nullptr && *path != '\0') {
      return path;
    }
  }
  std::error_code ignored;
  auto found = std::find_if(kPlaces.begin(), kPlaces.end(),
                            [&](const char* path) { return std::filesystem::exists(path, ignored); });
  return found == kPlaces.end() ? nullptr : *found;
}

size_t leave_unread(char* /*bytes*/, size_t size, size_t count, void* /*user*/) {
  return size * count;
}

int ask_whether_given_up(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return (*static_cast<const std::function<bool()>*>(user))() ? 1 : 0;
}

}  // namespace

HttpPoster::HttpPoster(const std::string& url) : handle_(nullptr, curl_easy_cleanup) {
  start_curl();
  handle_.reset(curl_easy_init());
  CURL* curl = handle_.get();
  SNUG_CHECK(curl != nullptr, "libcurl gives a handle");
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "snug");
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);  // signals are the training thread's
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, kConnectMilliseconds);
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, leave_unread);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, ask_whether_given_up);
  if (const char* authorities = authorities_file()) {
    curl_easy_setopt(curl, CURLOPT_CAINFO, authorities);
  }
}

HttpAnswer HttpPoster::post(const std::string& json, double seconds,
                            const std::function<bool()>& is_given_up) {
  CURL* curl = handle_.get();
  std::unique_ptr<curl_slist, void (*)(curl_slist*)> headers(
      curl_slist_append(nullptr, "Content-Type: application/json"), curl_slist_free_all);
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(curl, CURLOPT_POSTFIELDS, json.c_str());
  curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(json.size()));
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, std::max(1L, static_cast<long>(1000 * seconds)));
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &is_given_up);
  CURLcode code = curl_easy_perform(curl);
  HttpAnswer answer;
  if (code != CURLE_OK) {
    answer.problem = curl_easy_strerror(code);  // its longer texts name the host
    return answer;
  }
  long status = 0;
  curl_off_t retry_after = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  curl_easy_getinfo(curl, CURLINFO_RETRY_AFTER, &retry_after);
  answer.status = static_cast<int>(status);
  if (retry_after > 0) {
    answer.retry_after_seconds = static_cast<double>(retry_after);
  }
  return answer;
}

}  // namespace snug
