// The scan of a turn by a response template: transformers' streaming parser, fed with the beginning of the
// turn that the prompt holds, then with all that was sampled.
#include <utility>

#include "base/strings/code_points.h"
#include "tools/response_template.h"

namespace hone::tools {

using base::Json;

class Scan {
 public:
  Scan(const ResponseTemplate& spec, const Casts& casts, long& steps)
      : spec_(spec), casts_(casts), steps_(steps), output_(spec.defaults_), current_(spec.implicit_) {}

  Json run(std::u32string_view text, std::size_t given) {
    whole_ = text;
    if (given > 0) process(text.substr(0, given), false);
    seen_.clear();
    process(text, true);
    for (const Field& field : spec_.fields_)
      if (!field.optional && !output_.contains(field.name)) throw NotParsed();
    Json out = Json::object();
    for (auto& [key, value] : output_.items())
      if (spec_.defaults_.contains(key) || !is_empty(value)) out[key] = std::move(value);
    return out;
  }

 private:
  struct Event {
    const Field* field = nullptr;
    bool opens = false;
    Delimiter::Found found;
  };
  struct Seen {  // the last search of a delimiter
    const Delimiter* delimiter;
    std::size_t size;  // of the text
    std::optional<Delimiter::Found> found;
  };

  static bool is_empty(const Json& value) {
    return value.is_null() || (value.is_structured() && value.empty()) ||
           (value.is_string() && value.get_ref<const std::string&>().empty());
  }

  // A match that begins behind `at_` is still the first one, and there is none where there was none: each
  // text is searched about once for each delimiter, however many regions it has.
  std::optional<Delimiter::Found> find(const Delimiter& delimiter, std::u32string_view text) {
    for (Seen& seen : seen_) {
      if (seen.delimiter != &delimiter || seen.size != text.size()) continue;
      if (seen.found && seen.found->begin < at_) seen.found = delimiter.find(text, at_, steps_);
      return seen.found;
    }
    seen_.push_back({&delimiter, text.size(), delimiter.find(text, at_, steps_)});
    return seen_.back().found;
  }

  // The earliest event that counts now: the longest of those that begin at one place, openings before
  // closings. While more text is to come (`ended` is false) a delimiter that the end of the text cuts, or
  // could still change, holds back what begins at it or behind it: `hold` is its place.
  std::optional<Event> next(std::u32string_view text, bool ended, std::size_t& hold) {
    std::optional<Event> best;
    hold = text.size();
    const auto look = [&](const Field& field, bool opens, const Delimiter& delimiter) {
      const std::optional<Delimiter::Found> found = find(delimiter, text);
      if (!ended && !found && delimiter.looks_ahead()) {  // what it looks for may still come
        hold = std::min(hold, at_);
        return;
      }
      if (!ended) {
        const std::optional<Delimiter::Found> later = find(delimiter, whole_);
        if (later && later->begin < text.size() && later->end > text.size() &&
            (!found || found->begin >= later->begin)) {
          hold = std::min(hold, later->begin);
          return;
        }
      }
      if (!found) return;
      if (!ended && delimiter.can_grow(*found, text.size())) {
        hold = std::min(hold, found->begin);
        return;
      }
      if (!best || before(*found, opens, field, *best)) best = Event{&field, opens, *found};
    };
    if (current_ >= 0 && current_ != spec_.implicit_) {
      const Field& field = spec_.fields_[static_cast<std::size_t>(current_)];
      if (field.close) look(field, false, *field.close);
    } else {
      for (const Field& field : spec_.fields_)
        if (field.open) look(field, true, *field.open);
      if (spec_.implicit_ >= 0) {
        const Field& field = spec_.fields_[static_cast<std::size_t>(spec_.implicit_)];
        if (field.close) look(field, false, *field.close);
      }
    }
    if (best && best->found.begin >= hold) best.reset();
    return best;
  }

  static bool before(const Delimiter::Found& found, bool opens, const Field& field, const Event& other) {
    const std::size_t length = found.end - found.begin, others = other.found.end - other.found.begin;
    if (found.begin != other.found.begin) return found.begin < other.found.begin;
    if (length != others) return length > others;
    if (opens != other.opens) return opens;
    return field.name < other.field->name;
  }

  void process(std::u32string_view text, bool ended) {
    std::size_t idle = 0;
    for (;;) {
      std::size_t hold = 0;
      const std::optional<Event> event = next(text, ended, hold);
      if (!event) {
        const std::size_t end = ended ? text.size() : hold;
        if (end > at_) take(text, end);
        if (ended) close();
        return;
      }
      idle = event->found.end > at_ ? 0 : idle + 1;
      if (idle > 2 * spec_.fields_.size() + 4) throw NotParsed();  // transformers would not come to an end
      if (event->found.begin > at_) take(text, event->found.begin);
      at_ = event->found.end;
      const bool had_content = opened_;
      close();
      if (event->opens) {
        current_ = static_cast<int>(event->field - spec_.fields_.data());
        captures_ = event->found.captures.is_object() ? event->found.captures : Json::object();
        opened_ = true;
      } else if (!had_content && event->found.begin == event->found.end) {
        return;
      }
    }
  }

  void take(std::u32string_view text, std::size_t end) {
    if (current_ >= 0) {
      body_.append(text.substr(at_, end - at_));
      opened_ = true;
    }
    at_ = end;
  }

  Json value_of(const Field& field) {
    Json value = field.content.parse(body_, steps_);
    if (field.transform.is_null()) return value;
    if (!field.transform_each) {
      captures_["content"] = std::move(value);
      return transformed(field.transform, captures_);
    }
    if (!value.is_array()) throw NotParsed();
    Json out = Json::array();
    for (const Json& item : value) {
      if (!item.is_object()) throw NotParsed();
      Json scope = captures_;
      for (const auto& [key, part] : item.items()) scope[key] = part;
      out.push_back(transformed(field.transform, scope));
    }
    return out;
  }

  void close() {
    if (current_ >= 0 && opened_) {
      const Field& field = spec_.fields_[static_cast<std::size_t>(current_)];
      Json value = value_of(field);
      if (!casts_.empty()) casts_.apply(value);
      Json& place = output_[field.name];
      if (field.join) {
        if (!value.is_string() || !(place.is_null() || place.is_string())) throw NotParsed();
        place = place.is_null() ? value.get<std::string>()
                                : place.get<std::string>() + *field.join + value.get<std::string>();
      } else if (field.repeats) {
        if (place.is_null()) place = Json::array();
        if (!place.is_array()) throw NotParsed();
        place.push_back(std::move(value));
      } else {
        place = std::move(value);
      }
    }
    current_ = spec_.implicit_;
    captures_ = Json::object();
    body_.clear();
    opened_ = false;
  }

  const ResponseTemplate& spec_;
  const Casts& casts_;
  long& steps_;
  std::u32string_view whole_;
  std::size_t at_ = 0;
  std::vector<Seen> seen_;
  Json output_;
  int current_;
  Json captures_ = Json::object();
  std::u32string body_;
  bool opened_ = false;
};

Json ResponseTemplate::parse(std::string_view prompt, std::string_view completion, const Casts& casts) const {
  long steps = 2 * base::Pattern::kMaxSteps;
  std::u32string text = behind_anchor(prompt, steps);
  const std::size_t given = text.size();
  text += base::to_code_points(completion);
  return Scan(*this, casts, steps).run(text, given);
}

bool ResponseTemplate::opens(std::string_view text, std::string_view field) const {
  const std::u32string all = base::to_code_points(text);
  for (const Field& one : fields_) {
    if (one.name != field || !one.open) continue;
    long steps = base::Pattern::kMaxSteps;
    try {
      return one.open->find(all, 0, steps).has_value();
    } catch (const base::PatternTooSlow&) {
      return false;
    }
  }
  return false;
}

}  // namespace hone::tools
