// Looking at PTX text.
#pragma once
#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/codegen/assemble.hpp"
#include "tlx/codegen/to_ptx.hpp"
#include "tlx/ir/builder.hpp"

namespace test {

inline constexpr const char* targets[] = {"sm_90a", "sm_100a", "sm_103a"};

inline bool contains(const std::string& text, const std::string& what) { return text.find(what) != std::string::npos; }
int count(const std::string& text, const std::string& what);
/// The text after the first `from` up to the next `to`.
std::string between(const std::string& text, const std::string& from, const std::string& to);
bool in_order(const std::string& text, const std::vector<std::string>& parts);
/// What stands in the first braces after the n-th occurrence of `what` (the asm block's own brace is before it).
std::string register_list(const std::string& text, const std::string& what, int n);
/// Lines that are instructions: no comments, labels, directives or blanks. The rest of the first line is not counted.
int instructions(const std::string& text);

/// Verified and compiled.
std::string compile(const tlx::ir::kernel& k, const tlx::codegen::options& how = {});
/// A kernel of `warps` warps with what `body` puts into it, verified and compiled.
std::string compile_body(const std::string& target, int warps, const std::function<void(tlx::ir::kernel&, tlx::ir::builder&)>& body);
std::unique_ptr<tlx::ir::kernel> make_body(const std::string& target, int warps, const std::function<void(tlx::ir::kernel&, tlx::ir::builder&)>& body);

/// Says once that ptxas is missing.
bool skip_without_ptxas();
/// ptxas accepts it, without an advisory C75xx and without spills. Returns its registers.
int accepted(const tlx::ir::kernel& k);

/// The id of the error that `action` raises; "" when it raises none.
std::string error_id(const std::function<void()>& action);

}  // namespace test
