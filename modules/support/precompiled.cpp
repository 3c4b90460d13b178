#include <support/precompiled.hpp>

namespace std {
template class basic_string<char>;
template class vector<float>;
template class vector<double>;
template class vector<int>;
template class vector<int64_t>;
template class vector<bool>;
template class vector<byte>;
template class vector<string>;
template class map<string, vector<double>>;
}  // namespace std
