// The part of a worker's program that speaks HTTP (worker_script.h, http_reward.h).
#pragma once

#include <string_view>

namespace hone::rewards {

std::string_view worker_http_script();

}  // namespace hone::rewards
