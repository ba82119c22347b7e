#include "text/chat_template.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "text/chat_template_impl.h"

namespace hone::text {

using base::Json;

namespace {

// The message, cut where it is longer than a reader wants: a template can make one of megabytes.
std::string shortened(std::string_view message) {
  constexpr std::size_t kMost = 1000;
  if (message.size() <= kMost) return std::string(message);
  std::size_t end = kMost;
  while (end > 0 && (static_cast<unsigned char>(message[end]) & 0xC0U) == 0x80U) --end;
  return fmt::format("{}... ({} bytes)", message.substr(0, end), message.size());
}

// What is wrong, and the template's line; below it minijinja draws the source.
std::string first_line(std::string_view message) {
  return shortened(message.substr(0, message.find('\n')));
}

// What is not the conversation's fault: a limit that no model's template meets, what the renderer does not
// have, a bug of it.
void check_template(int status, const RustText& message, const std::string& where) {
  if (status == HONE_TEXT_LIMIT) {
    throw base::UserError({.where = where,
                           .expected = "a chat template within the limits of text/chat_template.h",
                           .found = fmt::format("a template that {}", shortened(message.view())),
                           .cause = "a damaged or malicious template",
                           .fix = "compare it with the model's own repository, or set chat_template_path to "
                                  "another one"});
  }
  if (status == HONE_TEXT_NOT_HAD) {
    throw base::UserError(
        {.where = where,
         .expected = "a chat template of the parts of jinja2 that hone has",
         .found = fmt::format("the template uses {}, which hone does not have", first_line(message.view())),
         .cause = "hone renders templates itself, without Python's jinja2",
         .fix = "write this part in another way, and name the file with chat_template_path"});
  }
  if (status == HONE_TEXT_PANIC) {
    throw base::UserError({.where = where,
                           .expected = "a chat template that hone's renderer can render",
                           .found = fmt::format("its renderer gave up: {}", first_line(message.view())),
                           .cause = "a bug of hone, which the template or the conversation met",
                           .fix =
                               "please report it with the template; until then chat_template_path can name "
                               "a template that does this in another way"});
  }
}

TemplateHandle compiled(std::string_view source, const std::string& where) {
  hone_text_template* handle = nullptr;
  RustText message;
  const int status = hone_text_template_new(source.data(), source.size(), &handle, message.out());
  if (status == HONE_TEXT_OK) return TemplateHandle(handle);
  check_template(status, message, where);
  throw base::UserError({.where = where,
                         .expected = "a chat template (Jinja) that compiles",
                         .found = first_line(message.view()),
                         .cause = "a template that was edited or truncated",
                         .fix = "compare it with the model's own repository"});
}

bool has_lists_of_parts(const Json& messages) {
  return messages.is_array() && std::any_of(messages.begin(), messages.end(), [](const Json& one) {
           return one.is_object() && one.contains("content") && one["content"].is_array();
         });
}

}  // namespace

ChatTemplate::ChatTemplate(std::string_view source, const SpecialTokens& special, const std::string& where)
    : ChatTemplate({.main = std::string(source), .named = {}}, special, where) {}

ChatTemplate::ChatTemplate(const ChatTemplates& templates, const SpecialTokens& special,
                           const std::string& where)
    : impl_(std::make_unique<Impl>()) {
  if (templates.main) impl_->handle = compiled(*templates.main, where);
  if (const auto tools = templates.named.find("tool_use"); tools != templates.named.end())
    impl_->tool_use = compiled(tools->second, where + ", tool_use");
  for (const auto& [name, source] : templates.named) impl_->names.push_back(name);
  impl_->special = Json::object();
  for (const auto& [name, token] : special.named) impl_->special[name] = token;
  impl_->special_text = base::dump_json(impl_->special);
  impl_->where = where;
}

ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

bool ChatTemplate::has_generation_tag() const {
  return impl_->handle != nullptr && hone_text_template_has_generation(impl_->handle.get()) != 0;
}

const hone_text_template* ChatTemplate::Impl::of(const Json& tools) const {
  if (tool_use != nullptr && !tools.is_null()) return tool_use.get();
  if (handle != nullptr) return handle.get();
  throw base::UserError(
      {.where = where,
       .expected = "a template named default, for conversations without tools",
       .found = fmt::format("only {}", fmt::join(names, ", ")),
       .cause = "this model has several chat templates with no default, which transformers refuses as well",
       .fix = "name the template to use: chat_template_path with a .jinja file"});
}

void ChatTemplate::Impl::append_call(const Json& messages, const Json& tools, const Json& template_kwargs,
                                     bool add_generation_prompt, std::string& out) const {
  out += R"({"messages":)";
  out += base::dump_json(messages);
  out += R"(,"tools":)";
  out += base::dump_json(tools);
  out += add_generation_prompt ? R"(,"add_generation_prompt":true,"variables":)"
                               : R"(,"add_generation_prompt":false,"variables":)";
  if (template_kwargs.is_object()) {
    Json variables = special;
    variables.update(template_kwargs);
    out += base::dump_json(variables);
  } else {
    out += special_text;
  }
  out += '}';
}

Rendered ChatTemplate::render(const ChatRequest& request) const {
  std::string text;
  impl_->append_call(request.messages, request.tools, request.template_kwargs, request.add_generation_prompt,
                     text);
  RustText rendered;
  RustSpans spans;
  RustText message;
  const hone_text_template* const chosen = impl_->of(request.tools);
  const int status =
      hone_text_template_apply(chosen, text.data(), text.size(), rendered.out(), spans.out(), message.out());
  if (status == HONE_TEXT_RAISED) {
    throw base::UserError(
        {.where = impl_->where,
         .expected = "a conversation that this chat template accepts",
         .found = fmt::format("the template says: {}", shortened(message.view())),
         .cause = "roles, or an order of roles, that the model was not trained on",
         .fix = "change the conversation, or set chat_template_path to a template that allows it"});
  }
  if (status != HONE_TEXT_OK) {
    check_template(status, message, impl_->where);
    const bool parts = has_lists_of_parts(request.messages);
    throw base::UserError(
        {.where = impl_->where,
         .expected = "a conversation that this chat template can render",
         .found = first_line(message.view()),
         .cause =
             parts ? "the content of a message is a list of parts, as OpenAI's API has it, and this template "
                     "reads text (DATA-15)"
                   : "a message lacks a field that the template reads, or the field has another type",
         .fix = parts ? "make one text of the parts (row_function), or name a template that takes lists"
                      : "compare the row's messages with what the template expects"});
  }
  Rendered out;
  out.text = rendered.str();
  out.generation_spans.reserve(spans->size);
  for (std::size_t i = 0; i < spans->size; ++i) {
    out.generation_spans.emplace_back(spans->pairs[2 * i], spans->pairs[2 * i + 1]);
  }
  return out;
}

TokenizedChat tokenize_chat(const Tokenizer& tokenizer, const ChatTemplate& chat_template,
                            const ChatRequest& request) {
  Rendered rendered = chat_template.render(request);
  Encoding encoding = tokenizer.encode(rendered.text, false, true);
  auto& spans = rendered.generation_spans;
  std::sort(spans.begin(), spans.end());

  TokenizedChat out;
  out.ids = std::move(encoding.ids);
  out.assistant.assign(out.ids.size(), 0);
  for (std::size_t i = 0; i < out.ids.size(); ++i) {
    const auto [begin, end] = encoding.byte_offsets[i];
    const auto overlaps = [begin, end](const auto& span) {
      return begin < span.second && end > span.first && begin < end;
    };
    out.assistant[i] = std::any_of(spans.begin(), spans.end(), overlaps) ? 1 : 0;
  }
  return out;
}

}  // namespace hone::text
