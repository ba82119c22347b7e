// The exit codes of hone that several programs and commands share. 0: done.
#pragma once

namespace hone::base {

constexpr int kUserMistake = 2;  // the user can fix it
constexpr int kOurBug = 70;      // EX_SOFTWARE

}  // namespace hone::base
