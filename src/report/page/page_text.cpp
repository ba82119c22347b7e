#include "report/page/page_text.h"

#include <array>
#include <cstdint>

#include "base/error.h"
#include "report/page/page_assets.h"

namespace hone::report {

namespace {

constexpr std::string_view kPageBegin = "<!doctype html>\n<!-- made by hone -->\n";

// What the frame has in the place of its parts, in this order.
constexpr std::array<std::string_view, 4> kParts = {"@policy@", "@style@", "@data@", "@script@"};

std::string policy() {
  return "default-src 'none'; script-src 'sha256-" + base64_of_hex(kPageScriptSha256) +
         "'; style-src 'sha256-" + base64_of_hex(kPageStyleSha256) +
         "'; img-src data:; connect-src 'none'; base-uri 'none'; form-action 'none'";
}

unsigned nibble(char digit) {
  if (digit >= '0' && digit <= '9') return static_cast<unsigned>(digit - '0');
  base::require(digit >= 'a' && digit <= 'f', "report::base64_of_hex", "digits from 0 to f");
  return static_cast<unsigned>(digit - 'a' + 10);
}

}  // namespace

std::string base64_of_hex(std::string_view hex) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char digit : hex) {
    bits = bits << 4U | nibble(digit);
    count += 4;
    if (count < 6) continue;
    count -= 6;
    out += kDigits[bits >> static_cast<unsigned>(count) & 63U];
  }
  if (count > 0) out += kDigits[bits << static_cast<unsigned>(6 - count) & 63U];
  while (out.size() % 4 != 0) out += '=';
  return out;
}

std::string json_for_script(std::string_view json) {
  std::string out;
  out.reserve(json.size() + json.size() / 64);
  for (std::size_t at = 0; at < json.size(); ++at) {
    const char c = json[at];
    const std::string_view three = json.substr(at, 3);
    if (c == '<') {
      out += "\\u003c";
    } else if (c == '>') {
      out += "\\u003e";
    } else if (c == '&') {
      out += "\\u0026";
    } else if (three == "\xE2\x80\xA8" || three == "\xE2\x80\xA9") {
      out += three[2] == '\xA8' ? "\\u2028" : "\\u2029";
      at += 2;
    } else {
      out += c;
    }
  }
  return out;
}

std::string page_text(std::string_view data) {
  const std::array<std::string, 4> texts = {policy(), std::string(kPageStyle), json_for_script(data),
                                            std::string(kPageScript)};
  std::string out(kPageBegin);
  std::string_view frame = kPageFrame;
  for (std::size_t i = 0; i < kParts.size(); ++i) {
    const std::size_t at = frame.find(kParts[i]);
    base::require(at != std::string_view::npos, "report::page_text",
                  "the places of the page's parts, in order");
    out.append(frame.substr(0, at)).append(texts[i]);
    frame.remove_prefix(at + kParts[i].size());
  }
  return out.append(frame);
}

bool is_page(std::string_view text) {
  return text.starts_with(kPageBegin);
}

}  // namespace hone::report
