// Storage that does not answer for a while: a file server that restarts, a network or a cable that is down. What is written again as a whole
// is repeated for a bounded time.
#pragma once

#include <chrono>
#include <functional>
#include <vector>

#include "base/error.h"

namespace hone::base {

// EIO, ESTALE, ETIMEDOUT and their like; not a full disk or missing permissions, which wait for a person.
bool may_pass(int error_number);

// The functions of base/files/file.h throw this for such an error.
class StorageGone : public UserError {
 public:
  using UserError::UserError;
};

struct RetryRules {
  std::vector<std::chrono::milliseconds> waits;  // before each repetition; empty: none
  std::function<void(const ErrorText& error, std::chrono::milliseconds wait)> on_wait = {};
};
// For the process; at first nothing is repeated. Called before other threads write.
void set_retry_rules(RetryRules rules);

// work(), again after StorageGone as the rules say; then the last error. What `work` calls is not repeated by itself: `work` begins
// from its beginning, whatever its last attempt left.
void retry_storage(const std::function<void()>& work);

}  // namespace hone::base
