// RE2 behind regex.h. The only C++ here: everything with a decision in it is in builtin_regex.c.
#include "policy/rego/regex.h"

#include <re2/re2.h>

#include <climits>
#include <cstdio>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace
{

// A pattern and what it keeps to match fast stay below this; with the number of patterns cached it
// bounds what tenants can make the process hold.
constexpr int64_t kMaxMemory = 4 << 20;
constexpr size_t kMaxCached = 128; // by each thread

RE2::Options options()
{
	RE2::Options o;
	o.set_log_errors(false);
	o.set_max_mem(kMaxMemory);
	return o;
}

} // namespace

struct rf_regex {
	rf_regex(std::string_view given, const std::string &pattern)
	    : key(given), re(pattern, options())
	{
	}

	const std::string key;
	const RE2 re;
	int refs = 1;
	uint64_t used = 0;
};

namespace
{

// Each thread has its own: RE2 itself takes locks on what it keeps to match fast, and threads that share a pattern
// would wait for each other.
class Cache
{
      public:
	~Cache()
	{
		for (auto &e : entries_)
			rf_regex_put(e.second);
	}

	rf_regex *find(std::string_view pattern)
	{
		auto it = entries_.find(pattern);
		if (it == entries_.end())
			return nullptr;
		it->second->used = ++clock_;
		it->second->refs++;
		return it->second;
	}

	void add(rf_regex *r)
	{
		if (entries_.size() >= kMaxCached)
			drop_oldest();
		r->used = ++clock_;
		r->refs++;
		entries_.emplace(r->key, r);
	}

      private:
	void drop_oldest()
	{
		auto oldest = entries_.begin();
		for (auto it = entries_.begin(); it != entries_.end(); ++it)
			if (it->second->used < oldest->second->used)
				oldest = it;
		rf_regex *r = oldest->second;
		entries_.erase(oldest); // before r: the key is r's
		rf_regex_put(r);
	}

	std::unordered_map<std::string_view, rf_regex *> entries_;
	uint64_t clock_ = 0;
};

Cache &cache()
{
	thread_local Cache c;
	return c;
}

void fail(char *error, size_t size, const char *what, std::string_view where)
{
	snprintf(error, size, "error parsing regexp: %s: `%.*s`", what,
		 static_cast<int>(std::min<size_t>(where.size(), INT_MAX)), where.data());
}

const char *go_text(RE2::ErrorCode code)
{
	switch (code) {
	case RE2::ErrorBadEscape:
		return "invalid escape sequence";
	case RE2::ErrorBadCharClass:
		return "invalid character class";
	case RE2::ErrorBadCharRange:
		return "invalid character class range";
	case RE2::ErrorMissingBracket:
		return "missing closing ]";
	case RE2::ErrorMissingParen:
		return "missing closing )";
	case RE2::ErrorUnexpectedParen:
		return "unexpected )";
	case RE2::ErrorTrailingBackslash:
		return "trailing backslash at end of expression";
	case RE2::ErrorRepeatArgument:
		return "missing argument to repetition operator";
	case RE2::ErrorRepeatSize:
		return "invalid repeat count";
	case RE2::ErrorRepeatOp:
		return "invalid nested repetition operator";
	case RE2::ErrorBadPerlOp:
		return "invalid or unsupported Perl syntax";
	case RE2::ErrorBadUTF8:
		return "invalid UTF-8";
	case RE2::ErrorBadNamedCapture:
		return "invalid named capture";
	case RE2::ErrorPatternTooLarge:
		return "expression too large";
	default:
		return "internal error";
	}
}

// Where a bracket expression that starts at `at` ends; everything between is not syntax to us.
size_t skip_class(std::string_view p, size_t at)
{
	at++;
	if (at < p.size() && p[at] == '^')
		at++;
	if (at < p.size() && p[at] == ']')
		at++;
	while (at < p.size() && p[at] != ']') {
		if (p[at] == '\\') {
			at += 2;
		} else if (p.substr(at, 2) == "[:") {
			size_t end = p.find(":]", at + 2);
			at = end == p.npos ? at + 1 : end + 2;
		} else {
			at++;
		}
	}
	return std::min(at + 1, p.size());
}

// Go's pattern as RE2 takes it; false: it holds \C.
bool translate(std::string_view p, std::string *out)
{
	for (size_t at = 0, end; at < p.size(); at = end) {
		end = at + 1;
		if (p.substr(at, 2) == "\\C")
			return false;
		if (p.substr(at, 2) == "\\Q") {
			end = p.find("\\E", at);
			end = end == p.npos ? p.size() : end + 2;
		} else if (p[at] == '\\') {
			end = std::min(at + 2, p.size());
		} else if (p[at] == '[') {
			end = skip_class(p, at);
		} else if (p.substr(at, 3) == "(?<" && p.substr(at, 4) != "(?<=" &&
			   p.substr(at, 4) != "(?<!") {
			out->append("(?P<");
			end = at + 3;
			continue;
		}
		out->append(p.substr(at, end - at));
	}
	return true;
}

} // namespace

rf_regex *rf_regex_get(const char *pattern, size_t n, bool *ret_compiled, char *error,
		       size_t error_size)
{
	std::string_view given(pattern, n);
	std::string translated;

	*ret_compiled = false;
	if (n > RF_REGEX_PATTERN_MAX) {
		fail(error, error_size, go_text(RE2::ErrorPatternTooLarge), given.substr(0, 40));
		return nullptr;
	}
	if (rf_regex *found = cache().find(given))
		return found;
	*ret_compiled = true;
	if (!translate(given, &translated)) {
		fail(error, error_size, go_text(RE2::ErrorBadEscape), "\\C");
		return nullptr;
	}
	rf_regex *r = new rf_regex(given, translated);
	if (!r->re.ok() || r->re.NumberOfCapturingGroups() > RF_REGEX_GROUPS_MAX) {
		RE2::ErrorCode code = r->re.ok() ? RE2::ErrorPatternTooLarge : r->re.error_code();
		fail(error, error_size, go_text(code), r->re.error_arg());
		rf_regex_put(r);
		return nullptr;
	}
	cache().add(r);
	return r;
}

void rf_regex_put(rf_regex *r)
{
	if (r != nullptr && --r->refs == 0)
		delete r;
}

size_t rf_regex_groups(const rf_regex *r)
{
	return static_cast<size_t>(r->re.NumberOfCapturingGroups());
}

size_t rf_regex_size(const rf_regex *r)
{
	return static_cast<size_t>(r->re.ProgramSize());
}

int rf_regex_group_named(const rf_regex *r, const char *name, size_t n)
{
	const auto &groups = r->re.NamedCapturingGroups();
	auto it = groups.find(std::string(name, n));

	return it == groups.end() ? -1 : it->second;
}

bool rf_regex_find(const rf_regex *r, const char *text, size_t n, size_t from,
		   struct rf_regex_part *part, size_t n_part)
{
	std::vector<re2::StringPiece> got(n_part);

	if (!r->re.Match(re2::StringPiece(text, n), from, n, RE2::UNANCHORED, got.data(),
			 static_cast<int>(n_part)))
		return false;
	for (size_t i = 0; i < n_part; i++)
		part[i] = { got[i].data(), got[i].size() };
	return true;
}
