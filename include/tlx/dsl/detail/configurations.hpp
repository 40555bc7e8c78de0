// A list of plan types, walked by Boost.Hana: the body of a kernel is instantiated once for each.
#pragma once
#include <boost/hana/for_each.hpp>
#include <boost/hana/tuple.hpp>
#include <boost/hana/type.hpp>
#include <string>

namespace tlx::dsl {

/// What tells one plan from another in a kernel's name: its member `name`, text such as "128x256".
template <class Plan>
std::string configuration_name() { return std::string(Plan::name); }

/// `each(Plan{})` for every plan, in order.
template <class... Plans, class Each>
void each_plan(Each&& each) {
  boost::hana::for_each(boost::hana::tuple_t<Plans...>, [&](auto t) { each(typename decltype(t)::type{}); });
}

}  // namespace tlx::dsl
