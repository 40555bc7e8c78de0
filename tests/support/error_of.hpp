#pragma once
#include <string>

#include "tlx/support/error.hpp"

namespace tlx::test {

/// The id of the error that `call` raises, "" if none; `text` receives the whole message.
template <class Call>
std::string error_of(Call&& call, std::string* text = nullptr) {
  try {
    call();
  } catch (const tlx::error& e) {
    if (text) *text = e.what();
    return e.id();
  }
  return "";
}

}  // namespace tlx::test
