#include "arguments.hpp"

#include <algorithm>
#include <charconv>

#include "tlx/support/text.hpp"

namespace tlxc {

using tlx::cat;

arguments::arguments(const verb& of, const std::vector<std::string>& words) {
  bool options = true;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--") {
      options = false;
      continue;
    }
    const auto is_known = [&] { return std::any_of(of.options.begin(), of.options.end(), [&](const option& o) { return word == o.name; }); };  // "-o"
    if (!options || (word.rfind("--", 0) != 0 && !is_known())) {
      words_.push_back(word);
      continue;
    }
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const option* found = nullptr;
    for (const option& o : of.options)
      if (name == o.name) found = &o;
    if (!found) throw usage_error(cat("there is no option ", name));
    if (!found->value && equals != std::string::npos) throw usage_error(cat(name, " takes no value"));
    std::string value;
    if (found->value) {
      if (equals != std::string::npos) value = word.substr(equals + 1);
      else if (i + 1 < words.size()) value = words[++i];
      else throw usage_error(cat(name, " needs a value, ", found->value));
    }
    given_.emplace_back(name, value);
  }
  const int count = static_cast<int>(words_.size());
  if (count < of.least) throw usage_error(cat("expected ", of.words));
  if (count > of.most) throw usage_error(cat("\"", words_[static_cast<size_t>(of.most)], "\" is one word too many"));
}

bool arguments::has(const std::string& option) const {
  for (const auto& [name, value] : given_)
    if (name == option) return true;
  return false;
}

std::vector<std::string> arguments::all(const std::string& option) const {
  std::vector<std::string> values;
  for (const auto& [name, value] : given_)
    if (name == option) values.push_back(value);
  return values;
}

std::string arguments::text(const std::string& option, const std::string& otherwise) const {
  const std::vector<std::string> values = all(option);
  return values.empty() ? otherwise : values.back();
}

long long arguments::number(const std::string& option, long long otherwise, long long least) const {
  if (!has(option)) return otherwise;
  const std::string value = text(option);
  long long n = 0;
  const auto [end, fault] = std::from_chars(value.data(), value.data() + value.size(), n);
  if (fault != std::errc{} || end != value.data() + value.size() || n < least)
    throw usage_error(cat(option, " needs a whole number of at least ", least, ", not \"", value, "\""));
  return n;
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, at);) parts.push_back(part);
  return parts;
}

std::string help_of(const verb& v) {
  std::string text = cat("usage: tlxc ", v.name, *v.words ? " " : "", v.words, v.options.empty() ? "" : " [options]", "\n\n", v.summary, "\n");
  if (*v.help) text += cat("\n", v.help, "\n");
  if (!v.options.empty()) text += "\n";
  for (const option& o : v.options) {
    std::string left = cat("  ", o.name, o.value ? " " : "", o.value ? o.value : "");
    left.resize(left.size() < 26 ? 26 : left.size() + 2, ' ');
    text += cat(left, o.help, "\n");
  }
  return text;
}

}  // namespace tlxc
