// A teacher that is the model of a server: its log-probabilities of given tokens, and of the tokens that it finds most likely. It is
// asked over HTTP as vLLM and hone serve are (POST /v1/completions with `echo` and `logprobs`), with ids of tokens, a sequence at a
// time. Log-probabilities are of its whole distribution at temperature 1. The key of its requests, where it wants one, is the value of the
// environment variable HONE_TEACHER_API_KEY, and never in an option, a file or a message.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "python/http_calls.h"
#include "text/tokenizer.h"

namespace hone::train {

// A teacher says this of tokens ids[from], ids[from + 1], ... of a sequence, n of them.
struct TeacherScores {
  std::vector<float> logprobs;        // [n]
  std::vector<std::int32_t> top_ids;  // [n k], the best first
  std::vector<float> top_logprobs;    // [n k]
};

class RemoteTeacher {
 public:
  // `vocabulary`: the rows of the model's head, which are all ids that the server may name. `python` runs the requests;
  // empty: the user's. Nothing is asked yet.
  RemoteTeacher(const std::string& url, std::int64_t vocabulary, const std::string& python);

  // Asks for the hash of its vocabulary. UserError: nobody listens, a server that does not say it, another vocabulary than `own`, that
  // of the model `ours`.
  void require_vocabulary(const text::Tokenizer& own, const std::string& ours);
  // UserError: the server says that its model takes fewer tokens than this. A server that does not say it passes.
  void require_length(std::int64_t tokens);
  // UserError: the server does not answer, or not about these tokens, or not with k tokens of the vocabulary and their
  // log-probabilities at each place.
  TeacherScores score(std::span<const std::int32_t> ids, std::size_t from, std::int64_t k);

 private:
  void ask_model();  // the first of its list

  python::HttpCalls http_;
  std::int64_t vocabulary_;
  std::string model_;                        // empty: not asked yet
  std::optional<std::int64_t> most_tokens_;  // max_model_len
};

}  // namespace hone::train
