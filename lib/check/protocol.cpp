#include "tlx/check/protocol.hpp"

#include <algorithm>

#include "check/budgets.hpp"
#include "check/machine.hpp"
#include "check/pending_loads.hpp"
#include "check/scenarios.hpp"
#include "tlx/support/text.hpp"

namespace tlx::check {

namespace {

// "with x.0 = 1, x.1 = 192": the numbers of a scenario, as the grid's formulas call them.
std::string numbers_of(const program& p, const scenario& s) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < p.leaves.size(); ++i) {
    const leaf& l = p.leaves[i];
    const bool named = l.what == leaf::kind::extent || l.what == leaf::kind::argument || l.what == leaf::kind::load_scale;
    if (!named || l.parameter < 0) continue;
    const std::string& name = p.kernel->parameters()[static_cast<size_t>(l.parameter)]->name;
    parts.push_back(l.what == leaf::kind::extent ? cat(name, ".", l.axis, " = ", s[i]) : l.what == leaf::kind::argument ? cat(name, " = ", s[i]) : cat("element i of ", name, " = ", s[i], " i"));
  }
  return parts.empty() ? std::string() : "\n    with " + join(parts, ", ");
}

}  // namespace

verdict check_protocol(const ir::kernel& lowered) {
  verdict v;
  for (auto&& rule : {broken_budget, used_before_loaded})
    if (auto broken = rule(lowered)) {
      v.findings.push_back(std::move(*broken));
      return v;
    }
  program p = flatten(lowered);
  for (const std::string& what : p.unchecked) v.unchecked.push_back(what + " is not followed");
  const auto say = [&](const std::string& what) {
    if (std::find(v.unchecked.begin(), v.unchecked.end(), what) == v.unchecked.end()) v.unchecked.push_back(what);
  };
  std::vector<unsigned char> did(p.steps.size());
  const auto ran = [&](const scenario& s) {
    outcome o = run(p, s);
    ++v.scenarios;
    v.steps += o.steps;
    for (size_t i = 0; i < did.size(); ++i) did[i] = std::max(did[i], o.did[i]);
    return o;
  };
  for (const planned& each : scenarios_for(p)) {
    const scenario& s = each.values;
    outcome o = ran(s);
    if (o.too_long) say("runs of more than two million steps are cut off");
    // One guess is free to go either way. Of several, some may only occur together.
    if (o.guessed.size() > 1)
      say(cat(o.guessed.size(), " conditions depend on values that are not followed", o.guessed[0] && o.guessed[0]->where.known() ? ", the first at " + to_string(o.guessed[0]->where) : std::string()));
    if (!o.finding) continue;
    if (o.guessed.size() > 1 || !p.unchecked.empty()) {
      say("a finding that depends on them is left out: " + o.finding->id + ", " + o.finding->what.substr(0, o.finding->what.find('\n')));
      continue;
    }
    if (each.together && !ran(*each.together).finding) {
      say(cat("a finding that needs one size to differ from the others is left out: ", o.finding->id, ", ", o.finding->what.substr(0, o.finding->what.find('\n'))));
      continue;
    }
    o.finding->what += numbers_of(p, s);
    v.findings.push_back(std::move(*o.finding));
    return v;
  }
  for (size_t i = 0; i < did.size(); ++i)
    if (did[i] == 1) v.implied.push_back(p.steps[i].from);
  return v;
}

std::string to_string(const verdict& v) {
  std::string text = v.findings.empty() ? cat("protocol check: nothing found in ", v.scenarios, " runs, ", v.steps, " steps\n") : std::string("protocol check:\n");
  for (const diagnostic& d : v.findings) text += tlx::to_string(d) + "\n";
  for (const std::string& what : v.unchecked) text += "unchecked: " + what + "\n";
  return text;
}

}  // namespace tlx::check
