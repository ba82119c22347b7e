#include "tools/response_parser.h"

#include <optional>
#include <utility>

#include "base/error.h"
#include "tools/families.h"
#include "tools/response_template.h"

namespace hone::tools {

using base::Json;

struct ResponseParser::Impl {
  std::string family;
  std::vector<std::string> notes;
  ResponseTemplate main;
  std::optional<ResponseTemplate> extra;
  std::string eos;
};

namespace {

// TRL's _validate_tool_calls, and the calls. Throws NotParsed.
std::vector<Call> take_calls(Json& message) {
  std::vector<Call> out;
  if (!message.contains("tool_calls") || message["tool_calls"].is_null()) return out;
  if (!message["tool_calls"].is_array()) throw NotParsed();
  for (Json& call : message["tool_calls"]) {
    if (!call.is_object()) throw NotParsed();
    Json& function = call.contains("function") ? call["function"] : call;
    if (!function.is_object() || !function.contains("name") || !function["name"].is_string())
      throw NotParsed();
    Json& arguments = function["arguments"];
    if (arguments.is_null()) arguments = Json::object();
    out.push_back({.name = function["name"].get<std::string>(), .arguments = arguments});
  }
  return out;
}

Turn read(const ResponseTemplate& spec, std::string_view prompt, std::string_view completion,
          const Casts& casts, const std::string& eos) {
  Turn out;
  out.message = spec.parse(prompt, completion, casts);
  Json& content = out.message["content"];
  if (content.is_string() && !eos.empty()) {
    auto& text = content.get_ref<std::string&>();
    if (text.ends_with(eos)) text.erase(text.size() - eos.size());
  }
  if (content.is_null() || content == false || content == 0 || (content.is_structured() && content.empty()))
    content = "";
  out.calls = take_calls(out.message);
  return out;
}

// nullopt where the text does not parse, for whatever reason: a sampled text must not end a run.
std::optional<Turn> try_read(const ResponseTemplate& spec, std::string_view prompt,
                             std::string_view completion, const Casts& casts, const std::string& eos) {
  try {
    return read(spec, prompt, completion, casts, eos);
  } catch (const NotParsed&) {
  } catch (const base::PatternTooSlow&) {
  } catch (const std::exception&) {
  }
  return std::nullopt;
}

}  // namespace

ResponseParser ResponseParser::from_json(const Json& response_template, const std::string& where,
                                         const std::string& eos) {
  return ResponseParser(std::make_shared<const Impl>(Impl{
      .family = "a given one", .notes = {}, .main = {response_template, where}, .extra = {}, .eos = eos}));
}

ResponseParser ResponseParser::open(const text::Tokenizer& tokenizer, const text::ChatTemplate& chat,
                                    const std::string& where, Extras extras) {
  const std::string eos = tokenizer.special().eos.value_or("");
  if (const std::optional<Json> own = tokenizer.response_template()) {
    return ResponseParser(std::make_shared<const Impl>(Impl{.family = "the tokenizer's own",
                                                            .notes = {},
                                                            .main = {*own, where + ", response_template"},
                                                            .extra = {},
                                                            .eos = eos}));
  }
  const Family* family = tokenizer.chat_template() ? family_of(*tokenizer.chat_template()) : nullptr;
  std::vector<std::string> notes;
  Json spec = family == nullptr ? Json() : family->response_template;
  if (family == nullptr) {
    const std::optional<Recognized> found = recognize(chat, extras == Extras::kOn);
    if (!found) {
      throw base::UserError(
          {.where = where,
           .expected = "a chat template whose calls of tools can be read",
           .found = tokenizer.chat_template() ? "a text that none of the known response templates reads back"
                                              : "no chat template",
           .cause = "a model without tools, or a form of calls that is not known here",
           .fix = "use a model of another family, or put a response_template (transformers' chat response "
                  "parsing) into its tokenizer_config.json"});
    }
    family = found->family;
    spec = found->response_template;
    notes.push_back("the chat template is none that TRL knows: its calls are read as those of " +
                    family->name + ", since it renders them in that form" +
                    (found->changed ? ", with its own header and end of a turn" : ""));
  }
  std::optional<ResponseTemplate> extra;
  if (extras == Extras::kOn && !family->extra.is_null()) extra.emplace(family->extra, family->name);
  return ResponseParser(std::make_shared<const Impl>(Impl{.family = family->name,
                                                          .notes = std::move(notes),
                                                          .main = {spec, family->name},
                                                          .extra = std::move(extra),
                                                          .eos = eos}));
}

const std::string& ResponseParser::family() const {
  return impl_->family;
}

const std::vector<std::string>& ResponseParser::notes() const {
  return impl_->notes;
}

Turn ResponseParser::parse(std::string_view prompt, std::string_view completion, const std::string& plain,
                           const Json& tools) const {
  const Casts casts(tools);
  std::optional<Turn> turn = try_read(impl_->main, prompt, completion, casts, impl_->eos);
  if (impl_->extra && (!turn || turn->calls.empty())) {
    std::optional<Turn> other = try_read(*impl_->extra, prompt, completion, casts, impl_->eos);
    if (other && !other->calls.empty()) return std::move(*other);
  }
  if (turn) return std::move(*turn);
  Turn out;
  out.message = {{"role", "assistant"}, {"content", plain}};
  return out;
}

bool ResponseParser::opens_call(std::string_view completion) const {
  return impl_->main.opens(completion, "tool_calls") ||
         (impl_->extra && impl_->extra->opens(completion, "tool_calls"));
}

}  // namespace hone::tools
