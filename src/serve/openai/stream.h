// Server-sent events of a request's choices, as OpenAI's clients read them. For the compute thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "serve/http.h"
#include "serve/openai/answers.h"
#include "text/text_stream.h"

namespace hone::serve::openai {

class Stream {
 public:
  Stream(const Told& told, Exchange& exchange, std::size_t choices);

  // The choice has more tokens, or has ended. Text that may be half a character or the beginning of a stop
  // string is held back; that of a turn that may call tools, until it has ended.
  void tell(const Choice& choice, bool has_ended);
  void end(const std::vector<Choice>& choices);  // usage where it was asked for, and the last event
  void fail(const std::string& error);           // the body of an error
  bool has_begun() const { return has_begun_; }

 private:
  struct State {
    text::TextStream text;
    std::string said;            // so far, held-back text included
    std::size_t sent = 0;        // of it
    std::size_t tokens = 0;      // told
    std::size_t characters = 0;  // of the texts of those
    bool has_role = false;
  };
  void event(const base::Json& body);
  void part(const Choice& choice, State& state, const std::string& text, bool has_ended);
  void chat_end(const Choice& choice, State& state, const std::string& text);
  std::size_t held(const std::string& said) const;
  void add_tokens(base::Json& chunk, const Choice& choice, State& state, bool is_first) const;

  const Told& told_;
  Exchange& exchange_;
  std::vector<State> states_;
  bool has_begun_ = false;
};

}  // namespace hone::serve::openai
