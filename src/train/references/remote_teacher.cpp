#include "train/references/remote_teacher.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "text/vocabulary_hash.h"

namespace hone::train {

namespace {

using base::Json;
using python::member_of;

constexpr const char* kCompletions = "/v1/completions";
constexpr const char* kTokenizer = "/tokenizer_info";
constexpr const char* kModels = "/v1/models";
constexpr const char* kKey = "HONE_TEACHER_API_KEY";
constexpr std::size_t kMostBytes = 32'000'000;  // 40,000 tokens with the 20 most likely of each
constexpr double kSeconds = 600;                // of a request: a server may have many callers

// "token_id:17"
std::int32_t id_of(const std::string& word) {
  constexpr std::string_view kBefore = "token_id:";
  std::int32_t out = -1;
  if (!word.starts_with(kBefore)) return out;
  const char* const begin = word.data() + kBefore.size();
  const char* const end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(begin, end, out);
  return error == std::errc() && stop == end ? out : -1;
}

// What rounding may leave of a probability above 1.
constexpr double kRounding = 1e-3;

bool is_logprob(const Json& value) {
  if (!value.is_number()) return false;
  const auto number = value.get<float>();
  return std::isfinite(number) && number <= kRounding;
}

// The k most likely of {"token_id:17": -0.5, ..}, each an id of the vocabulary; fewer: it has no more, or they are none.
std::vector<std::pair<float, std::int32_t>> best_of(const Json& top, std::int64_t k,
                                                    std::int64_t vocabulary) {
  std::vector<std::pair<float, std::int32_t>> out;
  if (!top.is_object()) return out;
  std::set<std::int32_t> seen;
  double sum = 0;
  for (const auto& [word, value] : top.items()) {
    const std::int32_t id = id_of(word);
    if (id < 0 || id >= vocabulary || !seen.insert(id).second || !is_logprob(value)) return {};
    out.emplace_back(value.get<float>(), id);
    sum += std::exp(value.get<double>());
  }
  if (sum > 1 + kRounding) return {};
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  if (std::ssize(out) > k) out.resize(static_cast<std::size_t>(k));
  return out;
}

}  // namespace

RemoteTeacher::RemoteTeacher(const std::string& url, std::int64_t vocabulary, const std::string& python)
    : http_(
          {.url = python::server_root(url),
           .key_env = kKey,
           .seconds = kSeconds,
           .most_bytes = kMostBytes,
           .python = python,
           .when_late =
               "lower per_device_train_batch_size of the runs that ask this server, or give it more threads",
           .how_key = std::string("set the environment variable ") + kKey + " to the key"}),
      vocabulary_(vocabulary) {}

void RemoteTeacher::ask_model() {
  if (!model_.empty()) return;
  const Json data = member_of(http_.object(http_.get(kModels), kModels), "data");
  const Json id = data.is_array() && !data.empty() ? member_of(data[0], "id") : Json();
  if (!id.is_string()) http_.refuse(kModels, "the name of a model", base::dump_json(data));
  model_ = id.get<std::string>();
  if (const Json most = member_of(data[0], "max_model_len"); most.is_number_integer())
    most_tokens_ = most.get<std::int64_t>();
}

void RemoteTeacher::require_length(std::int64_t tokens) {
  ask_model();
  if (!most_tokens_ || *most_tokens_ >= tokens) return;
  throw base::UserError(
      {.where = "option teacher_model_server_url",
       .expected =
           "a teacher that takes " + std::to_string(tokens) + " tokens, the longest prompt and completion",
       .found = http_.url() + " takes " + std::to_string(*most_tokens_) + " (max_model_len)",
       .cause = "the server was started with a shorter length, or its model has fewer positions",
       .fix = "start it with a longer one, or lower max_completion_length"});
}

void RemoteTeacher::require_vocabulary(const text::Tokenizer& own, const std::string& ours) {
  const Json found = member_of(http_.object(http_.get(kTokenizer), kTokenizer), "vocabulary_hash");
  if (!found.is_string()) {
    http_.refuse(kTokenizer, "vocabulary_hash, which proves that teacher and model have the same tokens",
                 "no such member", "let `hone serve` serve the teacher");
  }
  if (found == text::vocabulary_name(own)) return;
  const auto hash = found.get<std::string>();
  if (hash.size() > 64 || hash.find_first_not_of("0123456789abcdef") != std::string::npos)
    http_.refuse(kTokenizer, "a hash in hexadecimal digits as vocabulary_hash", hash,
                 "let `hone serve` serve the teacher");
  throw base::UserError({.where = "option teacher_model_server_url",
                         .expected = "a teacher with the vocabulary of " + ours + ", whose hash is " +
                                     text::vocabulary_name(own),
                         .found = http_.url() + " serves a model whose vocabulary has the hash " + hash,
                         .cause = "it is a model of another family",
                         .fix = "serve a teacher of the same family"});
}

TeacherScores RemoteTeacher::score(std::span<const std::int32_t> ids, std::size_t from, std::int64_t k) {
  base::require(from > 0 && from <= ids.size(), "train::RemoteTeacher", "tokens after a prompt");
  ask_model();
  const Json asked = {{"model", model_}, {"prompt", std::vector<std::int32_t>(ids.begin(), ids.end())},
                      {"max_tokens", 0}, {"echo", true},
                      {"logprobs", k},   {"return_tokens_as_token_ids", true}};
  const Json answer = http_.object(http_.post(kCompletions, asked), kCompletions);
  const Json choices = member_of(answer, "choices");
  const Json found = choices.is_array() && !choices.empty() ? member_of(choices[0], "logprobs") : Json();
  const Json own = member_of(found, "token_logprobs"), top = member_of(found, "top_logprobs");
  const auto refuse = [&](const std::string& what) {
    http_.refuse(kCompletions, "log-probabilities of " + std::to_string(ids.size()) + " tokens", what,
                 "let `hone serve` serve the teacher");
  };
  const Json tokens = member_of(found, "tokens");
  if (!own.is_array() || own.size() != ids.size() || !tokens.is_array() || tokens.size() != ids.size())
    refuse(base::dump_json(own));
  if (k > 0 && (!top.is_array() || top.size() != ids.size())) refuse("no top_logprobs");
  TeacherScores out;
  for (std::size_t i = from; i < ids.size(); ++i) {
    if (!tokens[i].is_string() || id_of(tokens[i].get<std::string>()) != ids[i])
      refuse("token " + std::to_string(i) + " is " + base::dump_json(tokens[i]) + ", and " +
             std::to_string(ids[i]) + " was sent");
    if (!is_logprob(own[i])) refuse("token " + std::to_string(i) + " has " + base::dump_json(own[i]));
    out.logprobs.push_back(own[i].get<float>());
    if (k == 0) continue;
    const auto best = best_of(top[i], k, vocabulary_);
    if (std::ssize(best) < k)
      refuse("not " + std::to_string(k) + " tokens of the vocabulary with log-probabilities at token " +
             std::to_string(i));
    for (const auto& [logprob, id] : best) {
      out.top_ids.push_back(id);
      out.top_logprobs.push_back(logprob);
    }
  }
  return out;
}

}  // namespace hone::train
