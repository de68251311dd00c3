# servers.sh - sourced by tests that read from servers: starts the scripted server (server.c), and nginx with TLS in
# front of it. Files to serve are in $files, the log of the scripted server is $log; $tmp is a temporary folder.
PATH=$PATH:/usr/sbin

# start_server - starts the scripted server and sets $one and $two, the URLs of its origins, and two free ports. It ends
# when this script does, because its stdin does.
start_server()
{
    mkfifo "$tmp/in" "$tmp/out"
    "$B/tests/remote/server" "$files" "$log" 120 <"$tmp/in" >"$tmp/out" &
    server=$!
    exec 9>"$tmp/in" 8<"$tmp/out"
    read -r port_one port_two tls_port_one tls_port_two <&8 || return
    one=http://127.0.0.1:$port_one two=http://127.0.0.1:$port_two
    touch "$log"
}

# settle - waits until no connection to the server is open, so that its log is complete
settle()
{
    echo >&9
    read -r answer <&8 && [ "$answer" = settled ]
}

stop_servers()
{
    for pid in ${nginx:-} ${server:-}; do
        kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null
    done
}

# make_certificates - makes an authority, ca.pem, and a certificate of it for 127.0.0.1
make_certificates()
{
    cd "$tmp" || return
    openssl ecparam -name prime256v1 -genkey -noout -out ca.key &&
        openssl ecparam -name prime256v1 -genkey -noout -out server.key &&
        openssl req -x509 -new -key ca.key -subj /CN=tests -days 2 -out ca.pem &&
        openssl req -new -key server.key -subj /CN=127.0.0.1 -out server.csr &&
        echo subjectAltName=IP:127.0.0.1 >server.ext &&
        openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile server.ext \
            -out server.pem
}

# tls_server PORT BACKEND LOCATIONS - prints a server of nginx's configuration
tls_server()
{
    echo "server {
        listen 127.0.0.1:$1 ssl;
        ssl_certificate $tmp/server.pem;
        ssl_certificate_key $tmp/server.key;
        location / {
            proxy_pass $2;
            proxy_buffering off;
            proxy_set_header Host \$http_host;
            proxy_set_header X-Other-Origin https://127.0.0.1:$tls_port_two;
        }
        $3
    }"
}

# start_nginx - starts nginx with TLS on two ports: it serves /files/, and the scripted server answers the rest
start_nginx()
{
    mkdir "$tmp/nginx"
    {
        echo "daemon off; master_process off; pid $tmp/nginx/pid; error_log $tmp/nginx/error.log;"
        echo "events { worker_connections 256; }"
        echo "http { log_format counts '\$request_uri \$status \$body_bytes_sent';"
        echo "access_log $tmp/nginx/access.log counts;"
        for kind in client_body proxy fastcgi uwsgi scgi; do echo "${kind}_temp_path $tmp/nginx/$kind;"; done
        tls_server "$tls_port_one" "$one" "location /files/ { alias $files/; }"
        tls_server "$tls_port_two" "$two" ''
        echo '}'
    } >"$tmp/nginx/nginx.conf"
    nginx -p "$tmp/nginx" -e "$tmp/nginx/error.log" -c "$tmp/nginx/nginx.conf" 9>&- 8<&- >"$tmp/nginx/out" 2>&1 &
    nginx=$!
    tries=0
    until [ -s "$tmp/nginx/pid" ]; do
        tries=$((tries + 1))
        [ $tries -lt 100 ] && kill -0 $nginx 2>/dev/null || { cat "$tmp/nginx/"*log "$tmp/nginx/out"; return 1; }
        sleep 0.02
    done
    tls=https://127.0.0.1:$tls_port_one
}
