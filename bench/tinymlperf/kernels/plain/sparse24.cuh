// x f16 [m, 2 kept] times rows of a 2:4 sparse weight, whose places have `bytes` bytes a row; a thread for
// each element of the result.
__global__ void spmm_24(const unsigned short* x, const unsigned short* values, const unsigned char* places,
                        float* out, int kept, int bytes, int n, long long size) {
  const size_t at = element();
  if (at >= size) return;
  places += at % n * bytes;
  out[at] = product_24(x + at / n * kept * 2, values + at % n * kept, kept,
                       [=](int i) { return place_24(places, i); });
}
