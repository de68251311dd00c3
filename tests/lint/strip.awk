# strip.awk - prints C source, line for line, with blanks instead of comments and of what is between quotes. If the
# variable "named" is set, each line begins with FILE:LINE: as grep prints it.
function put(line) { print (named ? FILENAME ":" FNR ":" : "") line }
FNR == 1 { state = "code" }
state == "code" && !/["'\/]/ { put($0); next }
{
    out = ""
    n = length($0)
    for (i = 1; i <= n; i++) {
        c = substr($0, i, 1)
        two = substr($0, i, 2)
        if (state == "comment") {
            if (two == "*/") { state = "code"; i++; out = out "  " } else out = out " "
        } else if (state == "code") {
            if (two == "/*") { state = "comment"; i++; out = out "  " }
            else if (two == "//") break
            else if (c == "\"" || c == "'") { state = c; out = out c }
            else out = out c
        } else {
            if (c == "\\") { i++; out = out "  " }
            else if (c == state) { state = "code"; out = out c }
            else out = out " "
        }
    }
    if (state != "comment") state = "code"
    put(out)
}
