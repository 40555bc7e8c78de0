// Branches, calls, ends, and what a simulator may ignore (hints, priorities).
#include "sim/decode.hpp"
#include "sim/ops.hpp"
#include "tlx/support/text.hpp"

namespace tlx::sim {
namespace {

void call(decoder& d) {
  d.take("uni");
  std::size_t k = 0;
  std::vector<std::string_view> results, arguments;
  const auto names = [&](const raw_operand& o, std::vector<std::string_view>& out) {
    for (const raw_operand& item : o.items) {
      if (item.what != raw_operand::kind::name) d.refuse("call arguments that are no .param variables");
      out.push_back(item.name);
    }
  };
  if (d.operand(k).what == raw_operand::kind::group) names(d.operand(k++), results);
  const raw_operand& callee = d.operand(k++);
  if (callee.what != raw_operand::kind::name) d.bad("no function name");
  if (d.count() > k && d.operand(k).what == raw_operand::kind::group) names(d.operand(k++), arguments);
  const auto place = [&](std::string_view name) {
    const int v = d.f->find_variable(name, d.raw->scope);
    if (v < 0 || !d.local_place.count(v)) d.bad(cat("\"", std::string(name), "\" is no .param variable"));
    return v;
  };
  // A callee that may come back here would find this function's registers and parameters in use: they are kept first.
  const auto keep = [&] {
    instruction save = d.out;
    save.run = op_save_frame;
    save.detail = static_cast<std::uint32_t>(d.p.details.size());
    auto x = std::make_shared<recursion_detail>();
    d.p.details.push_back(x);
    d.recursive_calls.push_back({d.function, x});
    d.p.code.push_back(save);
    d.out.flags |= 1U;
  };
  const auto found = d.m.function_index.find(std::string(callee.name));
  if (found == d.m.function_index.end()) {
    std::uint32_t slot = 0;
    if (!d.class_of(callee.name, slot)) d.bad(cat("unknown function \"", std::string(callee.name), "\""));
    d.out.a = d.source(callee, scalar::b64);
    const auto list_of = [&](const std::vector<std::string_view>& of) {
      std::vector<std::uint32_t> list;
      for (const std::string_view n : of) { const int v = place(n); list.push_back(d.local_place.at(v)); list.push_back(static_cast<std::uint32_t>(d.m.variables[static_cast<std::size_t>(v)].bytes)); }
      return list;
    };
    const auto in = list_of(arguments), out = list_of(results);
    d.out.list = d.add_list(in); d.out.list_count = static_cast<std::uint32_t>(in.size());
    d.out.list2 = d.add_list(out); d.out.list2_count = static_cast<std::uint32_t>(out.size());
    d.out.run = op_call_indirect;
    if (d.recursive(d.function)) keep();
    return;
  }
  if (d.count() > k + 1) d.bad("too many operands");  // one more: the prototype
  const function_text& target = *d.m.functions[static_cast<std::size_t>(found->second)];
  if (!target.defined) {
    if (target.name == "vprintf") {
      if (arguments.size() != 2) d.bad("vprintf takes two arguments");
      d.out.run = op_print;
      d.out.imm = d.local_place.at(place(arguments[0]));
      d.out.detail = d.local_place.at(place(arguments[1]));
      d.out.target = results.empty() ? no_pc : d.local_place.at(place(results[0]));
      return;
    }
    if (target.name == "__assertfail") { d.out.run = op_assert_fail; d.out.imm = arguments.empty() ? -1 : static_cast<std::int64_t>(d.local_place.at(place(arguments[0]))); return; }
    d.refuse(cat("function \"", target.name, "\" without a body"));
  }
  if (arguments.size() != target.parameters.size() || results.size() != target.results.size()) d.bad("wrong number of arguments");
  const auto copy = [&](int to, int from) {
    instruction c = d.out;
    c.run = op_copy_local;
    c.d = d.local_place.at(to);
    c.a = d.local_place.at(from);
    c.imm = static_cast<std::int64_t>(d.m.variables[static_cast<std::size_t>(to)].bytes);
    return c;
  };
  if (d.reaches[found->second].count(d.function)) keep();
  for (std::size_t j = 0; j < arguments.size(); ++j) d.p.code.push_back(copy(target.parameters[j], place(arguments[j])));
  for (std::size_t j = 0; j < results.size(); ++j) d.after.push_back(copy(place(results[j]), target.results[j]));
  d.out.run = op_call;
  d.calls.push_back({d.p.code.size(), found->second});
}

}  // namespace

bool decode_control(decoder& d) {
  const std::string_view n = d.words[0];
  instruction& o = d.out;
  const bool in_entry = d.f->entry;
  if (n == "bra") {
    d.take("uni");
    d.operands(1, 1);
    o.run = op_branch;
    d.branches.push_back({d.p.code.size(), d.operand(0).name, d.raw->scope, d.function});
    return true;
  }
  if (n == "brx") {
    if (!d.take("idx")) d.bad("needs .idx");
    d.take("uni");
    d.operands(2, 2);
    o.a = d.source(d.operand(0), scalar::u32);
    o.run = op_branch_table;
    d.tables.push_back({d.p.code.size(), d.operand(1).name, d.function, d.raw->scope});
    return true;
  }
  if (n == "ret") {
    d.take("uni");
    if (in_entry) o.run = op_exit;
    else { o.run = op_branch; d.branches.push_back({d.p.code.size(), {}, 0, d.function}); }
    return true;
  }
  if (n == "exit") { o.run = op_exit; return true; }
  if (n == "fn_exit") { o.run = op_function_exit; return true; }
  if (n == "call") { call(d); return true; }
  if (n == "trap" || n == "brkpt") { o.run = op_trap; return true; }
  if (n == "nanosleep") { d.need_type(); d.operands(1, 1); d.source(d.operand(0), scalar::u32); o.run = op_yield; return true; }
  if (n == "pmevent") { d.take("mask"); o.run = op_nothing; return true; }
  if (n == "griddepcontrol") {
    if (d.take_one({"launch_dependents", "wait"}) < 0) d.bad("needs .launch_dependents or .wait");
    o.run = op_nothing;  // launches run one after the other here
    return true;
  }
  if (n == "mov" && d.count() == 2) {
    const scalar t = d.need_type();
    const std::string_view s = d.operand(1).name;
    o.run = op_time;
    o.sub = s == "%clock" ? 0 : s == "%clock_hi" ? 1 : s == "%clock64" ? 2 : s == "%globaltimer" ? 3 : s == "%globaltimer_lo" ? 4 : s == "%globaltimer_hi" ? 5 : 6;
    if (o.sub == 6) d.refuse(cat("special register \"", std::string(s), "\""));
    o.wide = bits_of(t) == 64;
    o.d = d.destination(d.operand(0), t);
    return true;
  }
  if (n == "prefetch" || n == "prefetchu" || n == "discard" || n == "applypriority") {
    for (std::size_t k = 1; k < d.words.size(); ++k) d.used[k] = true;
    o.run = op_nothing;
    return true;
  }
  if (n == "createpolicy") {
    for (std::size_t k = 1; k < d.words.size(); ++k) d.used[k] = true;
    o.a = d.constant(0x12F0000000000000ULL, 64);
    o.d = d.destination(d.operand(0), scalar::b64);
    o.alu = find_fast(alu::mov, scalar::b64);
    return true;
  }
  return false;
}

}  // namespace tlx::sim
