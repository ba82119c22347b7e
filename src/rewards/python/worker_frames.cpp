#include "rewards/python/worker_frames.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/strings/plural.h"
#include "rewards/reward.h"

namespace hone::rewards {

using base::Json;

namespace {

[[noreturn]] void broken(const std::string& found) {
  python::broken_reply(found, kRewardWorker);
}

const Json& field(const Json& object, const char* name) {
  return python::reply_field(object, name, kRewardWorker);
}

void must_be_list(const Json& value, const char* name) {
  if (!value.is_array()) broken(std::string("field '") + name + "' is no list");
}

const Json& list_field(const Json& object, const char* name) {
  const Json& value = field(object, name);
  must_be_list(value, name);
  return value;
}

// Cut between characters where it is too long to be shown.
std::string text(const Json& value, const char* name) {
  return python::reply_text({{name, value}}, name, kRewardWorker);
}

Json parse_frame(std::string_view frame) {
  return python::parse_reply(frame, kRewardWorker);
}

void must_be_pair(const Json& value, const char* name) {
  if (!value.is_array() || value.size() != 2) broken(std::string("field '") + name + "' holds no pairs");
}

std::size_t index_below(const Json& value, std::size_t count, const char* name) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() >= count) {
    broken(std::string("field '") + name + "' is no index");
  }
  return value.get<std::size_t>();
}

double number_or_none(const Json& value, const char* name) {
  if (value.is_null()) return kNone;
  if (!value.is_number()) broken(std::string("field '") + name + "' holds no numbers");
  return value.get<double>();
}

RetryLater later_of(const Json& later) {
  static const std::vector<std::pair<std::string, RetryLater::Kind>> kinds = {
      {"busy", RetryLater::Kind::kBusy},
      {"absent", RetryLater::Kind::kAbsent},
      {"shaky", RetryLater::Kind::kShaky},
      {"slow", RetryLater::Kind::kSlow}};
  const std::string kind = text(field(later, "kind"), "kind");
  const auto found = std::ranges::find_if(kinds, [&](const auto& one) { return one.first == kind; });
  if (found == kinds.end()) broken("field 'kind' is unknown");
  const double seconds = number_or_none(field(later, "seconds"), "seconds");
  return {.kind = found->second,
          .what = text(field(later, "what"), "what"),
          .seconds = std::isfinite(seconds) ? std::clamp(seconds, 0.0, 1e9) : 0};
}

base::ErrorText fault_of(const Json& fault) {
  return {.expected = text(field(fault, "expected"), "expected"),
          .found = text(field(fault, "found"), "found"),
          .cause = text(field(fault, "cause"), "cause"),
          .fix = text(field(fault, "fix"), "fix")};
}

}  // namespace

LoadReply parse_load_reply(std::string_view frame, std::size_t functions) {
  const Json reply = parse_frame(frame);
  LoadReply out;
  if (reply.is_object() && reply.contains("fault")) {
    out.fault = fault_of(reply["fault"]);
    out.function = index_below(field(reply, "function"), functions, "function");
    return out;
  }
  for (const Json& item : list_field(reply, "functions")) {
    LoadedFunction function{.name = text(field(item, "name"), "name"),
                            .file = text(field(item, "file"), "file")};
    for (const Json& column : list_field(item, "needed")) {
      function.needed.push_back(text(column, "needed"));
    }
    if (item.contains("reads")) {
      for (const Json& column : list_field(item, "reads")) function.reads.push_back(text(column, "reads"));
    }
    function.wants_environments = item.value("environments", Json()) == true;
    out.functions.push_back(std::move(function));
  }
  if (out.functions.size() != functions)
    broken(base::counted(static_cast<std::int64_t>(out.functions.size()), "function"));
  return out;
}

ScoreReply parse_score_reply(std::string_view frame, std::size_t samples) {
  const Json reply = parse_frame(frame);
  ScoreReply out;
  if (reply.is_object() && reply.contains("fault")) {
    out.fault = fault_of(reply["fault"]);
    out.fault_may_pass = reply.contains("passing") && reply["passing"] == true;
    return out;
  }
  if (reply.is_object() && reply.contains("later")) {
    out.later = later_of(reply["later"]);
    return out;
  }
  if (reply.is_object() && reply.contains("raised")) {
    const Json& raised = reply["raised"];
    out.raised = PythonException{.what = text(field(raised, "what"), "what"),
                                 .place = text(field(raised, "place"), "place"),
                                 .trace = text(field(raised, "trace"), "trace"),
                                 .whole = raised.contains("whole") && raised["whole"] == true};
    return out;
  }
  for (const Json& value : list_field(reply, "rewards")) {
    out.rewards.push_back(number_or_none(value, "rewards"));
  }
  if (out.rewards.size() != samples)
    broken(base::counted(static_cast<std::int64_t>(out.rewards.size()), "reward"));
  for (const Json& item : list_field(reply, "bad")) {
    must_be_pair(item, "bad");
    const std::size_t sample = index_below(item[0], samples, "bad");
    out.rewards[sample] = kNone;
    out.bad.emplace_back(sample, text(item[1], "bad"));
  }
  for (const Json& item : list_field(reply, "extra")) {
    must_be_pair(item, "extra");
    const Json& values = item[1];
    must_be_list(values, "extra");
    if (values.size() != samples) broken("extra values for another number of samples");
    out.extra.emplace_back(text(item[0], "extra"), std::vector<Json>(values.begin(), values.end()));
  }
  for (const Json& item : list_field(reply, "metrics")) {
    must_be_pair(item, "metrics");
    const double value = number_or_none(item[1], "metrics");
    out.metrics.emplace_back(text(item[0], "metrics"), value);
  }
  return out;
}

}  // namespace hone::rewards
