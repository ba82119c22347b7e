#include "base/files/retry.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

namespace hone::base {

namespace {

RetryRules& retry_rules() {
  static RetryRules one;
  return one;
}

thread_local bool inside_retry = false;

// Calls of std::filesystem throw errors of their own.
void attempt_once(const std::function<void()>& work) {
  try {
    work();
  } catch (const std::filesystem::filesystem_error& error) {
    if (error.code().category() != std::system_category() &&
        error.code().category() != std::generic_category())
      throw;
    if (!may_pass(error.code().value())) throw;
    throw StorageGone({.where = error.path1().string(),
                       .expected = "to read or change it",
                       .found = error.code().message(),
                       .cause = "the file server or the disk does not answer",
                       .fix = "see whether it is there"});
  }
}

}  // namespace

bool may_pass(int error_number) {
  constexpr std::array kPassing = {EIO,       ESTALE,       ETIMEDOUT,  EREMOTEIO, ENOTCONN,     ESHUTDOWN,
                                   ENOLINK,   ECOMM,        ENETDOWN,   EHOSTDOWN, EHOSTUNREACH, ENETUNREACH,
                                   ENETRESET, ECONNABORTED, ECONNRESET, EAGAIN,    ENOLCK};
  return std::find(kPassing.begin(), kPassing.end(), error_number) != kPassing.end();
}

void set_retry_rules(RetryRules given) {
  retry_rules() = std::move(given);
}

void retry_storage(const std::function<void()>& work) {
  if (inside_retry) return work();
  struct Inside {
    Inside() { inside_retry = true; }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;
    ~Inside() { inside_retry = false; }
  } const here;
  for (const auto wait : retry_rules().waits) {
    try {
      return attempt_once(work);
    } catch (const StorageGone& error) {
      if (retry_rules().on_wait) retry_rules().on_wait(error.text(), wait);
    }
    std::this_thread::sleep_for(wait);
  }
  attempt_once(work);
}

}  // namespace hone::base
