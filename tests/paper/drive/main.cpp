// paper_drive MODE ...: hone's own libraries on the paper GPU (drive/modes.h). Started by tests/paper/on_paper.py.
#include <c10/util/Exception.h>

#include <algorithm>
#include <exception>
#include <iostream>

#include "base/error.h"
#include "paper/drive/card.h"
#include "paper/drive/modes.h"

int main(int count, char** words) {
  try {
    const std::string mode = count > 1 ? words[1] : "";
    const std::vector<std::string> rest(words + std::min(count, 2), words + count);
    const at::Device card = hone::paper::open_card();
    if (mode == "train") return hone::paper::train_on_card(rest, card);
    if (mode == "decode") return hone::paper::decode_on_card(rest, card);
    if (mode == "capture") return hone::paper::capture_on_card(rest, card);
    if (mode == "steps") return hone::paper::steps_on_card(rest, card);
    if (mode == "host") return hone::paper::host_on_card(rest, card);
    if (mode == "graphs") return hone::paper::test_graphs(rest, card);
    if (mode == "parts") return hone::paper::test_parts(rest);
    std::cerr << "paper_drive: train, decode, capture, steps, host, graphs or parts\n";
    return 2;
  } catch (const c10::Error& error) {
    std::cerr << error.what_without_backtrace() << '\n';
    return 1;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
