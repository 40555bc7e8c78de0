#include <doctest/doctest.h>

#include <cstring>
#include <iterator>  // size

namespace {
struct row {
  const char *id, *layer, *meaning, *fix;
};
constexpr row rows[] = {
#include "explain_table.inc"
};
}  // namespace

TEST_CASE("the explain table is sorted by id, then layer, so that a lookup may halve it") {
  for (std::size_t i = 1; i < std::size(rows); ++i) {
    CAPTURE(rows[i].id);
    const int by_id = std::strcmp(rows[i - 1].id, rows[i].id);
    CHECK((by_id < 0 || (by_id == 0 && std::strcmp(rows[i - 1].layer, rows[i].layer) < 0)));
  }
}

TEST_CASE("every explained error says what it means, how to fix it, and which layer raises it") {
  for (const row& r : rows) {
    CAPTURE(r.id);
    CHECK(std::strlen(r.layer) > 0);
    CHECK(std::strlen(r.meaning) > 20);
    CHECK(std::strlen(r.fix) > 10);
  }
}

TEST_CASE("an id of the lowest layer is in the table with its text") {
  const row* found = nullptr;
  for (const row& r : rows)
    if (std::strcmp(r.id, "file-unreadable") == 0) found = &r;
  REQUIRE(found != nullptr);
  CHECK(std::strcmp(found->layer, "support") == 0);
  CHECK(std::strstr(found->meaning, "could not be opened") != nullptr);
}
