/* Every function of ckpt.h is called with NULL for each required argument, and with enumerators that do not
 * exist: it must return CKPT_EUSAGE or an empty value, and clear its result. */
#include <stdio.h>

#include "small_files.h"
#include "unit.h"

#define ONE_TENSOR   "{\"t\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]}}"
#define OUT_OF_RANGE 12345 /* no enumeration has this enumerator, and no file here has this row */

/* Valid arguments. Each call below has one argument that is not valid. */
static struct valid {
    ckpt_file *file;
    ckpt_plan *plan;
    ckpt_builder *builder;
    ckpt_mem *mem;
    ckpt_error err;
} valid;

/* new_builder - returns a new empty builder. Each call needs its own, because a builder keeps its first
 * failure. */
static ckpt_builder *new_builder(void)
{
    ckpt_builder_free(valid.builder);
    CU_ASSERT_EQUAL_FATAL(ckpt_builder_new("b", &valid.builder, NULL), CKPT_OK);
    return valid.builder;
}

/* new_owned_builder - returns a new builder for ckpt_builder_finish(), which frees it even if it fails. */
static ckpt_builder *new_owned_builder(void)
{
    ckpt_builder *b = new_builder();
    valid.builder = NULL;
    return b;
}

static int take_bytes(void *user, const void *bytes, size_t n)
{
    (void)user;
    (void)bytes;
    (void)n;
    return 0;
}

/* CALL(name, result, call): CALL must return CKPT_EUSAGE and clear RESULT, which is one of `results`. RESULT
 * is NULL if the call must clear none of them. NAME is the function, followed by the wrong argument; if it is
 * only the function, the first argument is wrong. "out_of_range" means an enumerator that does not exist. */
#define REFUSED_CALLS                                                                                        \
    CALL(open, &opened, ckpt_open(NULL, NULL, &opened, err))                                                 \
    CALL(open_out, NULL, ckpt_open("/", NULL, NULL, err))                                                    \
    CALL(open_merged, &opened, ckpt_open_merged(NULL, 1, NULL, NULL, &opened, err))                          \
    CALL(open_merged_n, &opened, ckpt_open_merged((const char *const[]){"/"}, 0, NULL, NULL, &opened, err))  \
    CALL(open_merged_out, NULL, ckpt_open_merged((const char *const[]){"/"}, 1, NULL, NULL, NULL, err))      \
    CALL(open_names, &opened, ckpt_open_names(NULL, NULL, &opened, err))                                     \
    CALL(open_names_out, NULL, ckpt_open_names("/", NULL, NULL, err))                                        \
    CALL(salvage, &opened, ckpt_salvage(NULL, NULL, &opened, err))                                           \
    CALL(salvage_out, NULL, ckpt_salvage("/", NULL, NULL, err))                                              \
    CALL(open_memory, &opened, ckpt_open_memory(NULL, 8, "m", NULL, &opened, err))                           \
    CALL(open_memory_name, &opened, ckpt_open_memory("x", 1, NULL, NULL, &opened, err))                      \
    CALL(open_memory_out, NULL, ckpt_open_memory("x", 1, "m", NULL, NULL, err))                              \
    CALL(open_callbacks, &opened, ckpt_open_callbacks(NULL, "c", NULL, &opened, err))                        \
    CALL(open_callbacks_name, &opened, ckpt_open_callbacks(&callbacks, NULL, NULL, &opened, err))            \
    CALL(open_callbacks_out, NULL, ckpt_open_callbacks(&callbacks, "c", NULL, NULL, err))                    \
    CALL(open_callbacks_read, &opened, ckpt_open_callbacks(&no_read_at, "c", NULL, &opened, err))            \
    CALL(remote_open, &remote_bytes, ckpt_remote_open(NULL, &remote, &remote_bytes, err))                    \
    CALL(remote_open_path, &remote_bytes, ckpt_remote_open("Makefile", &remote, &remote_bytes, err))         \
    CALL(remote_open_remote, &remote_bytes, ckpt_remote_open("https://h/f", NULL, &remote_bytes, err))       \
    CALL(remote_open_size, &remote_bytes, ckpt_remote_open("https://h/f", &no_remote, &remote_bytes, err))   \
    CALL(remote_open_out, NULL, ckpt_remote_open("https://h/f", &remote, NULL, err))                         \
    CALL(remote_failure, NULL, ckpt_remote_failure(NULL, err))                                               \
    CALL(remote_failure_of_others, NULL, ckpt_remote_failure(&callbacks, err))                               \
    CALL(open_with, &opened, ckpt_open_with(NULL, NULL, &opened, err))                                       \
    CALL(open_with_out, NULL, ckpt_open_with("/", NULL, NULL, err))                                          \
    CALL(open_with_data_and_callbacks, &opened, ckpt_open_with("/", &data_and_callbacks, &opened, err))      \
    CALL(open_with_salvage_and_names, &opened, ckpt_open_with("/", &salvage_and_names, &opened, err))        \
    CALL(locate, NULL, ckpt_file_locate(NULL, err))                                                          \
    CALL(narrow, NULL, ckpt_file_narrow(NULL, NULL, NULL, 0, err))                                           \
    CALL(narrow_globs, NULL, ckpt_file_narrow(valid.file, NULL, NULL, 1, err))                               \
    CALL(narrow_null_glob, NULL, ckpt_file_narrow(valid.file, NULL, &no_text, 1, err))                       \
    CALL(read, NULL, ckpt_tensor_read(NULL, 0, 0, 1, digest, err))                                           \
    CALL(read_as, NULL, ckpt_tensor_read_as(NULL, 0, CKPT_DT_F32, 0, 1, digest, err))                        \
    CALL(digest_as, NULL, ckpt_file_digest_as(NULL, CKPT_DT_F32, err))                                       \
    CALL(read_out, NULL, ckpt_tensor_read(valid.file, 0, 0, 1, NULL, err))                                   \
    CALL(read_row, NULL, ckpt_tensor_read(valid.file, OUT_OF_RANGE, 0, 1, digest, err))                      \
    CALL(borrow, &borrowed, ckpt_tensor_borrow(NULL, 0, &borrowed, &size, err))                              \
    CALL(borrow_row, &borrowed, ckpt_tensor_borrow(valid.file, OUT_OF_RANGE, &borrowed, &size, err))         \
    CALL(borrow_out, NULL, ckpt_tensor_borrow(valid.file, 0, NULL, &size, err))                              \
    CALL(borrow_size, &borrowed, ckpt_tensor_borrow(valid.file, 0, &borrowed, NULL, err))                    \
    CALL(table_json, &json, ckpt_table_json(NULL, NULL, &json, &size, err))                                  \
    CALL(table_json_rows, &json, ckpt_table_json(valid.file, &null_rows, &json, &size, err))                 \
    CALL(table_json_row, &json, ckpt_table_json(valid.file, &out_of_range_rows, &json, &size, err))          \
    CALL(table_json_out, NULL, ckpt_table_json(valid.file, NULL, NULL, &size, err))                          \
    CALL(table_json_size, &json, ckpt_table_json(valid.file, NULL, &json, NULL, err))                        \
    CALL(stream, NULL, ckpt_tensor_stream(NULL, 0, take_bytes, NULL, err))                                   \
    CALL(stream_take, NULL, ckpt_tensor_stream(valid.file, 0, NULL, NULL, err))                              \
    CALL(inspect, &info, ckpt_inspect(NULL, &info, err))                                                     \
    CALL(inspect_out, NULL, ckpt_inspect(valid.file, NULL, err))                                             \
    CALL(digest_tensor, digest, ckpt_digest_tensor(NULL, 0, CKPT_SHA256, digest, err))                       \
    CALL(digest_tensor_out, NULL, ckpt_digest_tensor(valid.file, 0, CKPT_SHA256, NULL, err))                 \
    CALL(digest_tensor_algorithm, digest,                                                                    \
         ckpt_digest_tensor(valid.file, 0, (ckpt_algorithm)OUT_OF_RANGE, digest, err))                       \
    CALL(digest_tensors, NULL, ckpt_digest_tensors(NULL, CKPT_SHA256, NULL, digest, err))                    \
    CALL(digest_tensors_out, NULL, ckpt_digest_tensors(valid.file, CKPT_SHA256, NULL, NULL, err))            \
    CALL(digest_tensors_algorithm, digest,                                                                   \
         ckpt_digest_tensors(valid.file, (ckpt_algorithm)OUT_OF_RANGE, NULL, digest, err))                   \
    CALL(digest_file, digest, ckpt_digest_file(NULL, CKPT_SHA256, digest, digest, err))                      \
    CALL(digest_file_in, digest, ckpt_digest_file(valid.file, CKPT_SHA256, NULL, digest, err))               \
    CALL(digest_file_out, NULL, ckpt_digest_file(valid.file, CKPT_SHA256, digest, NULL, err))                \
    CALL(digest_file_algorithm, digest,                                                                      \
         ckpt_digest_file(valid.file, (ckpt_algorithm)OUT_OF_RANGE, digests, digest, err))                   \
    CALL(digest_bytes, digest, ckpt_digest_bytes(NULL, CKPT_SHA256, NULL, digest, err))                      \
    CALL(digest_bytes_out, NULL, ckpt_digest_bytes("/dev/null", CKPT_SHA256, NULL, NULL, err))               \
    CALL(digest_bytes_algorithm, digest,                                                                     \
         ckpt_digest_bytes("/dev/null", (ckpt_algorithm)OUT_OF_RANGE, NULL, digest, err))                    \
    CALL(digest_payload, digest, ckpt_digest_payload(NULL, CKPT_SHA256, NULL, digest, err))                  \
    CALL(digest_payload_out, NULL, ckpt_digest_payload(valid.file, CKPT_SHA256, NULL, NULL, err))            \
    CALL(digest_payload_algorithm, digest,                                                                   \
         ckpt_digest_payload(valid.file, (ckpt_algorithm)OUT_OF_RANGE, NULL, digest, err))                   \
    CALL(stat, &stats, ckpt_stat(NULL, &row, 1, NULL, &stats, err))                                          \
    CALL(stat_rows, &stats, ckpt_stat(valid.file, NULL, 1, NULL, &stats, err))                               \
    CALL(stat_row, &stats, ckpt_stat(valid.file, &out_of_range_row, 1, NULL, &stats, err))                   \
    CALL(stat_out, NULL, ckpt_stat(valid.file, &row, 1, NULL, NULL, err))                                    \
    CALL(builder_new, &builder, ckpt_builder_new(NULL, &builder, err))                                       \
    CALL(builder_new_out, NULL, ckpt_builder_new("b", NULL, err))                                            \
    CALL(builder_tensor, NULL, ckpt_builder_add_tensor(NULL, "t", &out_of_range_tensor, err))                \
    CALL(builder_tensor_key, NULL, ckpt_builder_add_tensor(new_builder(), NULL, &out_of_range_tensor, err))  \
    CALL(builder_tensor_tensor, NULL, ckpt_builder_add_tensor(new_builder(), "t", NULL, err))                \
    CALL(builder_tensor_out_of_range, NULL,                                                                  \
         ckpt_builder_add_tensor(new_builder(), "t", &out_of_range_tensor, err))                             \
    CALL(builder_tie, NULL, ckpt_builder_add_tie(NULL, "t", "u", err))                                       \
    CALL(builder_tie_key, NULL, ckpt_builder_add_tie(new_builder(), NULL, "u", err))                         \
    CALL(builder_tie_of, NULL, ckpt_builder_add_tie(new_builder(), "t", NULL, err))                          \
    CALL(builder_none, NULL, ckpt_builder_add_none(NULL, "t", err))                                          \
    CALL(builder_none_key, NULL, ckpt_builder_add_none(new_builder(), NULL, err))                            \
    CALL(builder_bool, NULL, ckpt_builder_add_bool(NULL, "t", true, err))                                    \
    CALL(builder_bool_key, NULL, ckpt_builder_add_bool(new_builder(), NULL, true, err))                      \
    CALL(builder_int, NULL, ckpt_builder_add_int(NULL, "t", 1, err))                                         \
    CALL(builder_int_key, NULL, ckpt_builder_add_int(new_builder(), NULL, 1, err))                           \
    CALL(builder_float, NULL, ckpt_builder_add_float(NULL, "t", 1, err))                                     \
    CALL(builder_float_key, NULL, ckpt_builder_add_float(new_builder(), NULL, 1, err))                       \
    CALL(builder_text, NULL, ckpt_builder_add_text(NULL, "t", "", err))                                      \
    CALL(builder_text_key, NULL, ckpt_builder_add_text(new_builder(), NULL, "", err))                        \
    CALL(builder_text_text, NULL, ckpt_builder_add_text(new_builder(), "t", NULL, err))                      \
    CALL(builder_begin, NULL, ckpt_builder_begin_dict(NULL, "t", err))                                       \
    CALL(builder_begin_key, NULL, ckpt_builder_begin_dict(new_builder(), NULL, err))                         \
    CALL(builder_end, NULL, ckpt_builder_end_dict(NULL, err))                                                \
    CALL(builder_metadata, NULL, ckpt_builder_add_metadata(NULL, "k", "", err))                              \
    CALL(builder_metadata_key, NULL, ckpt_builder_add_metadata(new_builder(), NULL, "", err))                \
    CALL(builder_metadata_text, NULL, ckpt_builder_add_metadata(new_builder(), "k", NULL, err))              \
    CALL(builder_finish, &opened, ckpt_builder_finish(NULL, &opened, err))                                   \
    CALL(builder_finish_out, NULL, ckpt_builder_finish(new_owned_builder(), NULL, err))                      \
    CALL(plan_new, &planned, ckpt_plan_new(NULL, &planned, err))                                             \
    CALL(plan_new_out, NULL, ckpt_plan_new(valid.file, NULL, err))                                           \
    CALL(plan_root, NULL, ckpt_plan_root(NULL, "auto", err))                                                 \
    CALL(plan_root_path, NULL, ckpt_plan_root(valid.plan, NULL, err))                                        \
    CALL(plan_keep, NULL, ckpt_plan_keep(NULL, "*", err))                                                    \
    CALL(plan_keep_glob, NULL, ckpt_plan_keep(valid.plan, NULL, err))                                        \
    CALL(plan_drop, NULL, ckpt_plan_drop(NULL, "*", err))                                                    \
    CALL(plan_drop_glob, NULL, ckpt_plan_drop(valid.plan, NULL, err))                                        \
    CALL(plan_lora, NULL, ckpt_plan_lora(NULL, &adapter, 1, NULL, err))                                      \
    CALL(plan_lora_adapters, NULL, ckpt_plan_lora(valid.plan, NULL, 1, NULL, err))                           \
    CALL(plan_lora_none, NULL, ckpt_plan_lora(valid.plan, &adapter, 0, NULL, err))                           \
    CALL(plan_lora_path, NULL, ckpt_plan_lora(valid.plan, &no_adapter, 1, NULL, err))                        \
    CALL(extract_base, NULL, ckpt_extract_lora(NULL, valid.plan, &extract_options, &extracted, err))         \
    CALL(extract_tuned, NULL, ckpt_extract_lora(valid.plan, NULL, &extract_options, &extracted, err))        \
    CALL(extract_out, NULL, ckpt_extract_lora(valid.plan, valid.plan, &extract_options, NULL, err))          \
    CALL(extract_options, NULL, ckpt_extract_lora(valid.plan, valid.plan, NULL, &extracted, err))            \
    CALL(extract_dtype, NULL, ckpt_extract_lora(valid.plan, valid.plan, &extract_ints, &extracted, err))     \
    CALL(extract_range, NULL,                                                                                \
         ckpt_extract_lora(valid.plan, valid.plan, &extract_out_of_range, &extracted, err))                  \
    CALL(extraction_write, NULL, ckpt_extraction_write(NULL, "/dev/null", NULL, NULL, err))                  \
    CALL(plan_strip, NULL, ckpt_plan_strip(NULL, "a.", false, err))                                          \
    CALL(plan_strip_prefix, NULL, ckpt_plan_strip(valid.plan, NULL, false, err))                             \
    CALL(plan_strip_auto, NULL, ckpt_plan_strip_auto(NULL, err))                                             \
    CALL(plan_add, NULL, ckpt_plan_add(NULL, "a.", err))                                                     \
    CALL(plan_add_prefix, NULL, ckpt_plan_add(valid.plan, NULL, err))                                        \
    CALL(plan_regex, NULL, ckpt_plan_rename_regex(NULL, "a=>b", err))                                        \
    CALL(plan_regex_rule, NULL, ckpt_plan_rename_regex(valid.plan, NULL, err))                               \
    CALL(plan_pairs, NULL, ckpt_plan_rename_pairs(NULL, NULL, 0, err))                                       \
    CALL(plan_pairs_pairs, NULL, ckpt_plan_rename_pairs(valid.plan, NULL, 1, err))                           \
    CALL(plan_map, NULL, ckpt_plan_rename_map(NULL, "/dev/null", err))                                       \
    CALL(plan_map_path, NULL, ckpt_plan_rename_map(valid.plan, NULL, err))                                   \
    CALL(plan_cast, NULL, ckpt_plan_cast(NULL, NULL, CKPT_DT_F32, err))                                      \
    CALL(plan_dequantize, NULL, ckpt_plan_dequantize(NULL, err))                                             \
    CALL(plan_cast_out_of_range, NULL, ckpt_plan_cast(valid.plan, NULL, (ckpt_dtype)OUT_OF_RANGE, err))      \
    CALL(plan_cast_none, NULL, ckpt_plan_cast(valid.plan, "*", CKPT_DT_NONE, err))                           \
    CALL(plan_average, NULL, ckpt_plan_average(NULL, &average_options, err))                                 \
    CALL(plan_average_options, NULL, ckpt_plan_average(valid.plan, NULL, err))                               \
    CALL(plan_average_out_of_range, NULL, ckpt_plan_average(valid.plan, &average_out_of_range, err))         \
    CALL(plan_sanitize, NULL, ckpt_plan_sanitize(NULL, NULL, err))                                           \
    CALL(plan_write, &written, ckpt_plan_write(NULL, "/nonexistent/o", NULL, &written, err))                 \
    CALL(plan_write_path, &written, ckpt_plan_write(valid.plan, NULL, NULL, &written, err))                  \
    CALL(plan_write_out_of_range, &written,                                                                  \
         ckpt_plan_write(valid.plan, "/nonexistent/o", &out_of_range_ties, &written, err))                   \
    CALL(plan_write_fd, &written, ckpt_plan_write_fd(NULL, 1, NULL, &written, err))                          \
    CALL(plan_write_fd_fd, &written, ckpt_plan_write_fd(valid.plan, -1, NULL, &written, err))                \
    CALL(plan_write_memory, &memory, ckpt_plan_write_memory(NULL, NULL, &memory, &memory_size, NULL, err))   \
    CALL(plan_write_memory_bytes, &written,                                                                  \
         ckpt_plan_write_memory(valid.plan, NULL, NULL, &memory_size, &written, err))                        \
    CALL(plan_write_memory_size, &memory,                                                                    \
         ckpt_plan_write_memory(valid.plan, NULL, &memory, NULL, NULL, err))                                 \
    CALL(plan_write_memory_out_of_range, &memory,                                                            \
         ckpt_plan_write_memory(valid.plan, &out_of_range_ties, &memory, &memory_size, NULL, err))           \
    CALL(plan_write_in_place, &written, ckpt_plan_write_in_place(NULL, NULL, &written, err))                 \
    CALL(metadata_write, &bytes, ckpt_metadata_write(NULL, NULL, 0, "/nonexistent/o", NULL, &bytes, err))    \
    CALL(metadata_write_pairs, &bytes,                                                                       \
         ckpt_metadata_write(valid.file, NULL, 1, "/nonexistent/o", NULL, &bytes, err))                      \
    CALL(recover, &recovered, ckpt_recover(NULL, NULL, &recovered, err))                                     \
    CALL(plan_write_part, &written,                                                                          \
         ckpt_plan_write(valid.plan, "/nonexistent/o.safetensors", &part_of_too_few, &written, err))         \
    CALL(plan_write_parts, &written,                                                                         \
         ckpt_plan_write(valid.plan, "/nonexistent/o.safetensors", &too_many_parts, &written, err))          \
    CALL(plan_write_part_memory, &memory,                                                                    \
         ckpt_plan_write_memory(valid.plan, &one_part, &memory, &memory_size, NULL, err))                    \
    CALL(parts_open, &parts, ckpt_parts_open(NULL, &parts, err))                                             \
    CALL(parts_open_empty, &parts, ckpt_parts_open("", &parts, err))                                         \
    CALL(parts_open_out, NULL, ckpt_parts_open("/", NULL, err))                                              \
    CALL(parts_open_at, &parts, ckpt_parts_open_at(NULL, 0, &parts, err))                                    \
    CALL(parts_open_at_out, NULL, ckpt_parts_open_at("/", 0, NULL, err))                                     \
    CALL(parts_merge, NULL, ckpt_parts_merge(NULL, NULL, err))                                               \
    CALL(parts_clean, NULL, ckpt_parts_clean(NULL, err))                                                     \
    CALL(results_open, &shared, ckpt_results_open(NULL, "hash", 0, 1, &shared, err))                         \
    CALL(results_open_command, &shared, ckpt_results_open("/", "Hash 1", 0, 1, &shared, err))                \
    CALL(results_open_part, &shared, ckpt_results_open("/", "hash", 1, 1, &shared, err))                     \
    CALL(results_open_out, NULL, ckpt_results_open("/", "hash", 0, 1, NULL, err))                            \
    CALL(results_close, NULL, ckpt_results_close(NULL, CKPT_OK, NULL, err))                                  \
    CALL(diff, &totals, ckpt_diff(NULL, valid.file, NULL, NULL, NULL, &totals, err))                         \
    CALL(diff_b, &totals, ckpt_diff(valid.file, NULL, NULL, NULL, NULL, &totals, err))                       \
    CALL(diff_globs, &totals, ckpt_diff(valid.file, valid.file, &null_globs, NULL, NULL, &totals, err))      \
    CALL(match_new, &matched, ckpt_match_new(NULL, valid.file, NULL, &matched, err))                         \
    CALL(match_new_file, &matched, ckpt_match_new(valid.file, NULL, NULL, &matched, err))                    \
    CALL(match_new_out, NULL, ckpt_match_new(valid.file, valid.file, NULL, NULL, err))                       \
    CALL(match_new_same, &matched, ckpt_match_new(valid.file, valid.file, NULL, &matched, err))              \
    CALL(match_apply, NULL, ckpt_match_apply(NULL, err))                                                     \
    CALL(diff_values, &values, ckpt_diff_values(NULL, valid.file, NULL, NULL, NULL, &values, err))           \
    CALL(diff_values_b, &values, ckpt_diff_values(valid.file, NULL, NULL, NULL, NULL, &values, err))         \
    CALL(diff_values_globs, &values,                                                                         \
         ckpt_diff_values(valid.file, valid.file, &null_globs, NULL, NULL, &values, err))                    \
    CALL(mem_new, &mem, ckpt_mem_new(NULL, NULL, &mem, err))                                                 \
    CALL(mem_new_out, NULL, ckpt_mem_new(valid.file, NULL, NULL, err))                                       \
    CALL(mem_new_frozen, &mem, ckpt_mem_new(valid.file, &null_frozen, &mem, err))                            \
    CALL(mem_estimate, &estimated, ckpt_mem_estimate(NULL, NULL, &estimated, err))                           \
    CALL(mem_estimate_out, NULL, ckpt_mem_estimate(valid.mem, NULL, NULL, err))                              \
    CALL(mem_estimate_out_of_range, &estimated,                                                              \
         ckpt_mem_estimate(valid.mem, &out_of_range_run, &estimated, err))                                   \
    CALL(mem_plan, &estimated, ckpt_mem_plan(NULL, NULL, 0, &estimated, err))                                \
    CALL(mem_plan_out, NULL, ckpt_mem_plan(valid.mem, NULL, 0, NULL, err))                                   \
    CALL(mem_plan_out_of_range, &estimated, ckpt_mem_plan(valid.mem, &out_of_range_run, 0, &estimated, err)) \
    CALL(mem_batch, &bytes, ckpt_mem_largest_batch(NULL, NULL, 1, &bytes, err))                              \
    CALL(mem_batch_out, NULL, ckpt_mem_largest_batch(valid.mem, NULL, 1, NULL, err))                         \
    CALL(scan_lists, NULL, ckpt_scan_lists(NULL, err))                                                       \
    CALL(scan, &scanned, ckpt_scan(NULL, NULL, NULL, NULL, &scanned, err))                                   \
    CALL(scan_callbacks, &scanned, ckpt_scan("s", &scan_no_read_at, NULL, NULL, &scanned, err))              \
    CALL(scan_out, NULL, ckpt_scan("/dev/null", NULL, NULL, NULL, NULL, err))                                \
    CALL(verify, &verified, ckpt_verify(NULL, NULL, NULL, NULL, &verified, err))                             \
    CALL(verify_out, NULL, ckpt_verify("/dev/null", NULL, NULL, NULL, NULL, err))                            \
    CALL(verify_globs, &verified, ckpt_verify("/dev/null", &verify_null_globs, NULL, NULL, &verified, err))  \
    CALL(verify_no_size, &verified, ckpt_verify("Makefile", &verify_no_size, NULL, NULL, &verified, err))    \
    CALL(doctor_no_size, &diagnosed, ckpt_doctor("Makefile", &doctor_no_size, NULL, NULL, &diagnosed, err))  \
    CALL(verify_out_of_range, &verified,                                                                     \
         ckpt_verify("/dev/null", &out_of_range_algorithm, NULL, NULL, &verified, err))                      \
    CALL(doctor, &diagnosed, ckpt_doctor(NULL, NULL, NULL, NULL, &diagnosed, err))                           \
    CALL(doctor_out, NULL, ckpt_doctor("/dev/null", NULL, NULL, NULL, NULL, err))

/* Results and options of the calls above. fill_results() sets the results before each call. */
static ckpt_file *opened;
static ckpt_plan *planned;
static ckpt_match *matched;
static ckpt_builder *builder;
static const ckpt_builder_tensor out_of_range_tensor = {.struct_size = sizeof out_of_range_tensor,
                                                        .dtype = OUT_OF_RANGE};
static ckpt_info info;
static ckpt_stats stats;
static ckpt_write_result written;
static ckpt_diff_totals totals;
static ckpt_diff_value_totals values;
static ckpt_scan_result scanned;
static ckpt_callbacks remote_bytes;
static const ckpt_remote remote = {.struct_size = sizeof remote, .offline = 1}, no_remote = {.offline = 1};
static ckpt_verify_result verified;
static ckpt_doctor_result diagnosed;
static ckpt_recovered recovered;
static ckpt_parts *parts;
static ckpt_results *shared;
static ckpt_mem *mem;
static ckpt_mem_result estimated;
static const char *const no_text = NULL;
static const ckpt_mem_options null_frozen = {
    .struct_size = sizeof null_frozen, .frozen = &no_text, .nfrozen = 1};
static const ckpt_mem_run out_of_range_run = {.struct_size = sizeof out_of_range_run,
                                              .precision = OUT_OF_RANGE};
static const ckpt_write_options part_of_too_few = {.struct_size = sizeof part_of_too_few,
                                                   .part = 2,
                                                   .parts = 2},
                                too_many_parts = {.struct_size = sizeof too_many_parts, .parts = 65537},
                                one_part = {
                                    .struct_size = sizeof one_part, .format = "safetensors", .parts = 1};
static uint64_t bytes;
static const void *borrowed;
static size_t size; /* size of JSON or BORROWED; nothing checks that it is cleared */
static char *json;
static void *memory;
static size_t memory_size;
static uint8_t digest[CKPT_DIGEST_MAX], digests[CKPT_DIGEST_MAX];
static int64_t read_at_that_is_not_called(void *user, uint64_t offset, void *buf, size_t n)
{
    (void)user;
    (void)offset;
    (void)buf;
    return (int64_t)n;
}
static const ckpt_callbacks callbacks = {.struct_size = sizeof callbacks,
                                         .read_at = read_at_that_is_not_called},
                            no_read_at = {.struct_size = sizeof no_read_at};
static const ckpt_open_options data_and_callbacks = {.struct_size = sizeof data_and_callbacks,
                                                     .data = "",
                                                     .callbacks = &callbacks},
                               salvage_and_names = {
                                   .struct_size = sizeof data_and_callbacks, .salvage = 1, .names = 1};
static const ckpt_scan_options scan_no_read_at = {.struct_size = sizeof scan_no_read_at,
                                                  .callbacks = &no_read_at};
static const uint32_t row = 0, out_of_range_row = OUT_OF_RANGE;
static const ckpt_table_json_options null_rows = {.struct_size = sizeof null_rows, .nrows = 1},
                                     out_of_range_rows = {.struct_size = sizeof null_rows,
                                                          .rows = &out_of_range_row,
                                                          .nrows = 1};
static const ckpt_lora_adapter adapter = {.path = "/dev/null", .scale = 1}, no_adapter = {.scale = 1};
static ckpt_extraction *extracted;
static const ckpt_extract_options extract_options = {.struct_size = sizeof extract_options, .rank = 1},
                                  extract_ints = {.struct_size = sizeof extract_options,
                                                  .rank = 1,
                                                  .dtype = CKPT_DT_I8},
                                  extract_out_of_range = {.struct_size = sizeof extract_options,
                                                          .rank = 1,
                                                          .others = OUT_OF_RANGE};
static const char *const average_paths[] = {"/dev/null", "/dev/null"};
static const ckpt_average_options average_options = {.struct_size = sizeof average_options,
                                                     .paths = average_paths,
                                                     .npaths = 2},
                                  average_out_of_range = {.struct_size = sizeof average_options,
                                                          .method = OUT_OF_RANGE,
                                                          .paths = average_paths,
                                                          .npaths = 2};
static const ckpt_write_options out_of_range_ties = {
    .struct_size = sizeof out_of_range_ties, .dry_run = 1, .ties = OUT_OF_RANGE};
static const ckpt_limits no_size = {.struct_size = 0};
static const ckpt_doctor_options doctor_no_size = {.struct_size = sizeof doctor_no_size, .limits = &no_size};
static const ckpt_diff_options null_globs = {.struct_size = sizeof null_globs, .nglobs = 1};
static const ckpt_verify_options verify_no_size = {.struct_size = sizeof verify_no_size, .limits = &no_size},
                                 verify_null_globs = {.struct_size = sizeof verify_null_globs, .nglobs = 1},
                                 out_of_range_algorithm = {.struct_size = sizeof out_of_range_algorithm,
                                                           .algorithm = OUT_OF_RANGE};

#define CALL(name, result, call)                                                                             \
    static ckpt_status call_##name(ckpt_error *err) { return call; }
REFUSED_CALLS
#undef CALL

static const struct refused_call {
    const char *name;
    const void *result;
    ckpt_status (*call)(ckpt_error *err);
} refused_calls[] = {
#define CALL(name, result, call) {#name, result, call_##name},
    REFUSED_CALLS
#undef CALL
};

static struct result {
    void *address;
    size_t size;
    bool has_struct_size; /* the result begins with struct_size */
} results[] = {
    {&opened, sizeof opened, false},       {&planned, sizeof planned, false},
    {&builder, sizeof builder, false},     {&info, sizeof info, true},
    {&stats, sizeof stats, true},          {&written, sizeof written, true},
    {&totals, sizeof totals, true},        {&values, sizeof values, true},
    {&scanned, sizeof scanned, true},      {&remote_bytes, sizeof remote_bytes, true},
    {&verified, sizeof verified, true},    {&diagnosed, sizeof diagnosed, true},
    {&recovered, sizeof recovered, false}, {&parts, sizeof parts, false},
    {&shared, sizeof shared, false},       {&mem, sizeof mem, false},
    {&estimated, sizeof estimated, true},  {&bytes, sizeof bytes, false},
    {&borrowed, sizeof borrowed, false},   {&json, sizeof json, false},
    {&memory, sizeof memory, false},       {digest, sizeof digest, false},
    {&matched, sizeof matched, false},
};
#define NRESULTS (sizeof results / sizeof *results)

static void fill_results(void)
{
    for (size_t i = 0; i < NRESULTS; i++) {
        uint32_t struct_size = (uint32_t)results[i].size;
        memset(results[i].address, 0xff, struct_size);
        if (results[i].has_struct_size)
            memcpy(results[i].address, &struct_size, sizeof struct_size);
    }
}

/* result_is - returns true if each byte of R, except struct_size, is FILL. */
static bool result_is(const struct result *r, unsigned char fill)
{
    const unsigned char *bytes_of_result = r->address;
    size_t i = r->has_struct_size ? sizeof(uint32_t) : 0;
    while (i < r->size && bytes_of_result[i] == fill)
        i++;
    return i == r->size;
}

/* check_results - checks that CALL cleared its own result and no other. */
static void check_results(const struct refused_call *call)
{
    for (size_t i = 0; i < NRESULTS; i++) {
        bool as_expected = result_is(&results[i], results[i].address == call->result ? 0 : 0xff);
        if (!as_expected)
            fprintf(stderr, "%s must clear its result, and only that; result %zu is wrong\n", call->name, i);
        CU_ASSERT(as_expected);
    }
}

static void open_valid_arguments(void)
{
    valid.file = open_safetensors(ONE_TENSOR, "abc", 3);
    CU_ASSERT_EQUAL_FATAL(ckpt_plan_new(valid.file, &valid.plan, NULL), CKPT_OK);
    CU_ASSERT_EQUAL_FATAL(ckpt_mem_new(valid.file, NULL, &valid.mem, NULL), CKPT_OK);
}

static void close_valid_arguments(void)
{
    ckpt_plan_free(valid.plan);
    ckpt_builder_free(valid.builder);
    valid.builder = NULL;
    ckpt_mem_free(valid.mem);
    close_open_files();
}

static void null_arguments_are_refused(void)
{
    open_valid_arguments();
    for (size_t i = 0; i < sizeof refused_calls / sizeof *refused_calls; i++) {
        fill_results();
        valid.err.status = CKPT_OK;
        ckpt_status st = refused_calls[i].call(&valid.err);
        if (st != CKPT_EUSAGE)
            fprintf(stderr, "%s returns %s\n", refused_calls[i].name, ckpt_status_name(st));
        CU_ASSERT_EQUAL(st, CKPT_EUSAGE);
        CU_ASSERT_EQUAL(valid.err.status, CKPT_EUSAGE);
        CU_ASSERT(valid.err.what[0] != '\0');
        check_results(&refused_calls[i]);
        CU_ASSERT_EQUAL(refused_calls[i].call(NULL), CKPT_EUSAGE);
    }
    close_valid_arguments();
}

static bool is_empty(ckpt_str s) { return s.len == 0; }

static void getters_accept_a_null_file(void)
{
    ckpt_tensor t = CKPT_INIT(ckpt_tensor);
    ckpt_storage s = CKPT_INIT(ckpt_storage);
    ckpt_pair pair;
    CU_ASSERT_STRING_EQUAL(ckpt_file_path(NULL), "");
    CU_ASSERT_STRING_EQUAL(ckpt_file_format(NULL), "");
    CU_ASSERT_STRING_EQUAL(ckpt_file_title(NULL), "");
    CU_ASSERT(!ckpt_file_contains_path(NULL, "/") && !ckpt_file_contains_path(valid.file, NULL));
    CU_ASSERT(ckpt_file_bytes(NULL) == 0 && ckpt_tensor_count(NULL) == 0 && ckpt_storage_count(NULL) == 0);
    CU_ASSERT(!ckpt_tensor_at(NULL, 0, &t) && t.name.len == 0 && !ckpt_storage_at(NULL, 0, &s));
    CU_ASSERT(ckpt_tensor_names(NULL, 0, 1, &t.name) == 0);
    CU_ASSERT(is_empty(ckpt_tensor_name(NULL, 0)) && ckpt_tensor_json(NULL, 0, NULL, 0) == 0);
    CU_ASSERT_EQUAL(ckpt_tensor_find(NULL, (ckpt_str){"t", 1}), CKPT_NO_TENSOR);
    CU_ASSERT(!ckpt_file_root(NULL) && !ckpt_file_metadata(NULL) && !ckpt_notice_at(NULL, 0));
    CU_ASSERT(ckpt_leaf_count(NULL) == 0 && !ckpt_leaf_at(NULL, 0));
    CU_ASSERT(ckpt_lost_count(NULL) == 0 && ckpt_lost_parts(NULL) == 0 && !ckpt_lost_at(NULL, 0));
    CU_ASSERT(!ckpt_weights_at(NULL, 0) && !ckpt_wrapper_at(NULL, 0) && !ckpt_quantized_at(NULL, 0));
    CU_ASSERT(ckpt_metadata_count(NULL) == 0 && !ckpt_metadata_at(NULL, 0, &pair) && is_empty(pair.key));
    CU_ASSERT(!ckpt_metadata_is_tie(NULL, 0) && ckpt_digest_dtype(NULL, 0) == CKPT_DT_NONE);
    ckpt_part part = CKPT_INIT(ckpt_part);
    CU_ASSERT(ckpt_parts_count(NULL) == 0 && !ckpt_parts_at(NULL, 0, &part) && !ckpt_parts_plan_id(NULL)[0]);
    CU_ASSERT(!ckpt_parts_path(NULL)[0]);
    CU_ASSERT(ckpt_parts_file_count(NULL) == 0 && !ckpt_parts_file_at(NULL, 0, NULL));
    ckpt_parts_close(NULL);
    ckpt_file_ignore_crc(NULL, true);
    ckpt_file_ignore_case(NULL, true);
    ckpt_close(NULL);
}

static void getters_accept_a_null_result(void)
{
    open_valid_arguments();
    CU_ASSERT(!ckpt_tensor_at(valid.file, 0, NULL) && !ckpt_storage_at(valid.file, 0, NULL));
    CU_ASSERT(!ckpt_mem_group_at(valid.mem, 0, NULL));
    CU_ASSERT(!ckpt_metadata_at(valid.file, 0, NULL));
    CU_ASSERT(is_empty(ckpt_tensor_name(valid.file, OUT_OF_RANGE)));
    CU_ASSERT(ckpt_tensor_names(valid.file, 0, UINT32_MAX, NULL) == 0);
    CU_ASSERT_EQUAL(ckpt_tensor_find(valid.file, (ckpt_str){NULL, 0}), CKPT_NO_TENSOR);
    close_valid_arguments();
}

static void getters_accept_a_null_plan(void)
{
    CU_ASSERT(ckpt_plan_tensor_count(NULL) == 0 && ckpt_plan_rename_count(NULL) == 0);
    CU_ASSERT(ckpt_plan_mapping_count(NULL) == 0 && ckpt_plan_sanitized_count(NULL) == 0);
    CU_ASSERT(!ckpt_plan_edit_parameter_at(NULL, 0) && !ckpt_recipe_at(0, NULL));
    CU_ASSERT(!ckpt_recipe_parameter_at((ckpt_str){"param a = 1 # x\n", 16}, 0, NULL));
    CU_ASSERT(!ckpt_plan_sanitized_at(NULL, 0) && !ckpt_plan_rename_at(NULL, 0) && !ckpt_plan_prefix(NULL));
    CU_ASSERT(!ckpt_plan_mapping_at(NULL, 0) && !ckpt_plan_notice_at(NULL, 0) && !ckpt_plan_cast_at(NULL, 0));
    CU_ASSERT(!ckpt_plan_dequantized_at(NULL, 0) && !ckpt_plan_lora_match_at(NULL, 0));
    CU_ASSERT(!ckpt_extracted_at(NULL, 0) && !ckpt_extraction_plan(NULL) &&
              ckpt_extraction_unchanged(NULL) == 0 && is_empty(ckpt_extraction_config(NULL)));
    ckpt_extraction_free(NULL);
    CU_ASSERT(!ckpt_plan_averaged(NULL) && !ckpt_plan_mismatch_at(NULL, 0) &&
              !ckpt_plan_overflow_at(NULL, 0));
    CU_ASSERT(!ckpt_plan_dropped_at(NULL, 0) && !ckpt_plan_alias_at(NULL, 0));
    ckpt_plan_free(NULL);
    ckpt_plan_allow_none(NULL, true);
    ckpt_free(NULL);
    ckpt_builder_free(NULL);
}

static void getters_accept_a_null_estimate(void)
{
    ckpt_mem_group group = {1, 1};
    CU_ASSERT(!ckpt_mem_group_at(NULL, 0, &group) && group.parameters == 0 && group.bytes == 0);
    CU_ASSERT(!ckpt_mem_assumed_at(NULL, 0) && !ckpt_mem_unknown_at(NULL, 0));
    CU_ASSERT(!ckpt_mem_block_name(NULL, 0) && !ckpt_mem_optimizer_at(SIZE_MAX));
    ckpt_mem_free(NULL);
}

static void getters_accept_a_null_value(void)
{
    const ckpt_value *key = NULL, *val = NULL;
    char text[16] = "";
    CU_ASSERT_EQUAL(ckpt_value_get_type(NULL), CKPT_V_NONE);
    CU_ASSERT_STRING_EQUAL(ckpt_value_type_name(NULL, NULL, 9), "");
    CU_ASSERT_PTR_EQUAL(ckpt_value_type_name(NULL, text, sizeof text), text);
    CU_ASSERT(ckpt_value_text(NULL, 3, NULL, 9) == ckpt_value_text(NULL, 3, text, sizeof text));
    CU_ASSERT(!ckpt_value_bool(NULL) && ckpt_value_int(NULL) == 0 && ckpt_value_float(NULL) == 0);
    CU_ASSERT(is_empty(ckpt_value_str(NULL)) && ckpt_value_count(NULL) == 0);
    CU_ASSERT(!ckpt_value_item(NULL, 0, &key, &val) && !ckpt_value_item(NULL, 0, NULL, NULL));
    CU_ASSERT(ckpt_value_tensor(NULL) == CKPT_NO_TENSOR && ckpt_value_offset(NULL) == 0);
}

static void text_functions_accept_null(void)
{
    const ckpt_str none = {NULL, 0}, a = {"a", 1};
    size_t at = 0, beyond_end = 1;
    bool unsafe;
    char out[8];
    CU_ASSERT(ckpt_text_escape(none, NULL, 0) == 0 && ckpt_text_escape(a, NULL, 9) == 1);
    CU_ASSERT(ckpt_text_json(none, NULL, 0, NULL) == 2 && ckpt_text_json(a, NULL, 9, NULL) == 3);
    CU_ASSERT_STRING_EQUAL(ckpt_tensor_dtype_name(NULL), "");
    CU_ASSERT(!ckpt_tensor_is_optimizer_state(NULL) && ckpt_tensor_state(NULL) == CKPT_STATE_NONE);
    CU_ASSERT(!ckpt_tensor_is_unread(NULL) && ckpt_file_count_unread(NULL, NULL) == 0);
    CU_ASSERT(ckpt_text_next(a, NULL, &unsafe) == UINT32_MAX && ckpt_text_next(a, &at, NULL) == 'a');
    CU_ASSERT(ckpt_text_next(a, &beyond_end, &unsafe) == UINT32_MAX && beyond_end == 1);
    CU_ASSERT(ckpt_natural_compare(none, none) == 0 && ckpt_natural_compare(none, a) < 0);
    CU_ASSERT(ckpt_glob_match(none, none) && !ckpt_glob_match(none, a) && !ckpt_glob_match(a, none));
    CU_ASSERT(ckpt_glob_match_any_case(none, none));
    CU_ASSERT_STRING_EQUAL(ckpt_error_text(NULL, out, sizeof out), "");
    CU_ASSERT_STRING_EQUAL(ckpt_error_text(&valid.err, NULL, 9), "");
    CU_ASSERT_EQUAL(ckpt_dtype_parse(none), CKPT_DT_NONE);
    CU_ASSERT(!ckpt_finding_text(NULL) && !ckpt_write_format(NULL) && !ckpt_scan_rule_at(SIZE_MAX));
    CU_ASSERT(!ckpt_write_format_at(SIZE_MAX) && !ckpt_write_format_suffixes(NULL));
    CU_ASSERT(!ckpt_write_format_is_flat(NULL) && !ckpt_write_format_is_folder(NULL));
}

static void unknown_enumerators_have_no_names(void)
{
    static const int unknown_enumerators[] = {-1, OUT_OF_RANGE};
    for (size_t i = 0; i < 2; i++) {
        int unknown = unknown_enumerators[i];
        CU_ASSERT_STRING_EQUAL(ckpt_status_name((ckpt_status)unknown), "unknown-status");
        CU_ASSERT_STRING_EQUAL(ckpt_dtype_name((ckpt_dtype)unknown), "");
        CU_ASSERT_EQUAL(ckpt_dtype_bits((ckpt_dtype)unknown), 0);
        CU_ASSERT_STRING_EQUAL(ckpt_kind_name((ckpt_kind)unknown), "");
        CU_ASSERT_STRING_EQUAL(ckpt_scan_verdict_name((ckpt_scan_verdict)unknown), "");
        CU_ASSERT_STRING_EQUAL(ckpt_scan_level_name((ckpt_scan_level)unknown), "");
    }
}

void suite_null_arguments(void)
{
    UNIT(null_arguments_are_refused);
    UNIT(getters_accept_a_null_file);
    UNIT(getters_accept_a_null_result);
    UNIT(getters_accept_a_null_plan);
    UNIT(getters_accept_a_null_estimate);
    UNIT(getters_accept_a_null_value);
    UNIT(text_functions_accept_null);
    UNIT(unknown_enumerators_have_no_names);
}
