// Argument structs with named fields: Boost.Hana lists the fields, every field is bound to a kernel parameter of its name.
#pragma once
#include <boost/hana/accessors.hpp>
#include <boost/hana/define_struct.hpp>
#include <boost/hana/first.hpp>
#include <boost/hana/for_each.hpp>
#include <boost/hana/second.hpp>
#include <boost/hana/string.hpp>
#include <boost/hana/tuple.hpp>

#include "tlx/dsl/memory.hpp"

namespace tlx::dsl {

template <class T> ir::type parameter_type(const scalar<T>&) { return ir::type::scalar(tile::element_of<T>); }
template <class T, int Rank> ir::type parameter_type(const view<T, Rank>&) { return ir::type::view_of(tile::element_of<T>, Rank); }

template <class Arguments>
void bind_arguments(context& c, Arguments& to) {
  boost::hana::for_each(boost::hana::accessors<Arguments>(), [&](auto field) {
    auto& member = boost::hana::second(field)(to);
    member.bind(c, c.add_parameter(boost::hana::to<const char*>(boost::hana::first(field)), parameter_type(member)));
  });
}

template <class... Roles, class Each>
void each_role(const std::tuple<const Roles&...>& roles, Each&& each) {
  std::apply([&](const Roles&... r) { boost::hana::for_each(boost::hana::make_tuple(&r...), [&](auto* role) { each(*role); }); }, roles);
}

}  // namespace tlx::dsl

/// TLX_ARGUMENTS(gemm_arguments, (tlx::view<tlx::bf16, 2>, a), (tlx::scalar<float>, alpha)); inside `struct gemm_arguments { ... };`
#define TLX_ARGUMENTS BOOST_HANA_DEFINE_STRUCT
