"""Encodings, recognised from the first bytes of a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.data.files.tables import TableSettings
from regard.data.labels.readers import read_labelled
from regard.data.recognition.encodings import UTF8, named, recognise
from regard.data.text.parallel import read_pairs
from regard.errors import UserError
from tests.messages import raises

GERMAN = "Können Sie das hören?\tCan you hear it?\nSchöne Grüße\tKind regards\nein Baum\ta tree\n"
GREEK = "θάλασσα;sea\nήλιος;sun\nκαλημέρα;good morning\n"
RUSSIAN = "привет\thello\nкак дела\thow are you\nхорошо\tgood\nмолоко\tmilk\n"
CZECH = "příliš\ttoo\nžluťoučký\tyellow\nkůň\thorse\nčtyři\tfour\n"
JAPANESE = "日本語の文章です\tJapanese\n東京に行きます\tTokyo\nカタカナ\tkana\n"
JAPANESE_TEXT = (
    "今日、学生が椅子の上で寝ている。\tToday a student is sleeping on the chair.\n"
    "母はコーヒーを飲みたいと言った！\tMother said she wants to drink coffee!\n"
    "「駅はどこですか？」\tWhere is the station?\n来年の春、京都へ行きます。\tKyoto in spring\n"
)
JAPANESE_WORDS = (
    "日本語\tJapanese\n英語\tEnglish\n図書館\tlibrary\nねこ\tcat\nテレビ\tTV\n食べる\teat\n"
)
CHINESE = (
    "今天天气很好，我们去公园吧。\tnice weather\n他说：“我不知道！”\tHe does not know.\n"
    "图书馆在学校旁边。\tThe library is beside the school.\n请问，火车站在哪里？\tthe station?\n"
)
TRADITIONAL = (
    "今天天氣很好，我們去公園吧。\tThe weather is nice.\n他說：「我不知道！」\tHe does not know.\n"
    "圖書館在學校旁邊。\tThe library is beside the school.\n請問，火車站在哪裡？\tthe station?\n"
)
KOREAN_TEXT = (
    "오늘은 날씨가 좋습니다.\tThe weather is nice today.\n학생이 의자에서 자고 있어요.\tasleep\n"
    "도서관은 학교 옆에 있다.\tThe library is beside the school.\n펲시맨과 똠방각하\ta film\n"
)
THAI = "ฉันชอบกินข้าว\tI like rice\nวันนี้อากาศดี\tnice weather\nแมวนอนบนเก้าอี้\ta cat\n"
KOREAN = "안녕하세요\thello\n감사합니다\tthanks\n"
GREEK_WORDS = (
    "τυροδεινυ\ttyrodiny\nπουφις\tpoufis\nγαιζος\tgezos\nναποιμοβες\tnapimoves\n"
    "ζουθος\tzouthos\nβιθιχαιτα\tvithicheta\nθωλιξαις\ttholixes\nμωμειφης\tmomifis\n"
)
HEBREW = "שלום\tpeace\nתודה רבה\tthanks\n"
ARABIC = "مرحبا\thello\nشكرا\tthanks\n"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (GERMAN, "cp1252"),
        (GREEK, "cp1253"),
        (GREEK_WORDS, "cp1253"),
        (RUSSIAN, "cp1251"),
        (RUSSIAN, "koi8_r"),
        (CZECH, "cp1250"),
        (JAPANESE, "cp932"),
        (JAPANESE, "euc_jp"),
        (JAPANESE_TEXT, "cp932"),
        (JAPANESE_TEXT, "euc_jp"),
        (JAPANESE_WORDS, "cp932"),
        (JAPANESE_WORDS, "euc_jp"),
        (CHINESE, "gb18030"),
        (TRADITIONAL, "big5"),
        (KOREAN, "euc_kr"),
        (KOREAN_TEXT, "cp949"),
        (THAI, "cp874"),
        (HEBREW, "cp1255"),
        (ARABIC, "cp1256"),
    ],
)
@pytest.mark.parametrize("times", [4, 20])
@pytest.mark.parametrize("delimiter", ["\t", ","])
def test_words_tell_the_encoding(text, name, times, delimiter):
    text = text.replace("\t", delimiter) * times
    encoding = recognise(text.encode(name), Path("words.tsv"))
    assert text.encode(name).decode(encoding.name) == text
    assert not encoding.is_certain
    assert encoding.example in text


WORDS = {
    "German": (
        "cp1252",
        "Äpfel Möhren Käse Brötchen Öl Süßstoff Gemüse Grüße für über schön Straße Mädchen Tür "
        "Bücher Häuser fünf zwölf Fuß heiß König Löffel Schlüssel Frühstück Übung",
    ),
    "French": (
        "cp1252",
        "été élève français garçon où forêt hôtel île naïf cœur sœur déjà à très père mère façade "
        "goût août tête Noël pâte crème l’école reçu œuf bûche",
    ),
    "Spanish": (
        "cp1252",
        "año señor niño mañana sí qué está árbol canción corazón español ratón último pingüino "
        "jamón país ¿cómo? ¡así! montaña araña sueño",
    ),
    "Italian": ("cp1252", "perché più così città è può già verità lunedì però università virtù"),
    "Turkish": (
        "cp1254",
        "Doğu Batı Türkçe Arapça dağ ağaç şeker kış güneş çocuk öğrenci ışık İstanbul yağmur "
        "büyük küçük kırmızı yeşil sarı gümüş kuş çiçek söz göz değil şimdi",
    ),
    "Polish": (
        "cp1250",
        "łódź żółty źródło święto ręka ćma mąż dziękuję książka będę gęś śnieg piękny Łukasz "
        "szczęście koń słońce miłość być żaba pączek",
    ),
    "Czech": (
        "cp1250",
        "příliš žluťoučký kůň čtyři děkuji město řeka škola ulice květina život víno dům účet "
        "náměstí hvězda měsíc slunce déšť řeč čeština ďábel",
    ),
    "Hungarian": ("cp1250", "őz fű könyv víz ház kéz út bőr erdő nő szőlő gyűrű ötödik húsz élet"),
    "Greek": (
        "cp1253",
        "θάλασσα ήλιος καλημέρα σπίτι δέντρο ψωμί νερό άνθρωπος γάτα σκύλος βιβλίο ημέρα νύχτα "
        "ουρανός φίλος αγάπη δρόμος χέρι πόδι ψάρι",
    ),
    "Russian": (
        "cp1251",
        "привет молоко хлеб город дерево солнце вода книга день ночь рука друг любовь дорога рыба "
        "кошка собака Москва ёлка счастье ещё объект",
    ),
    "Lithuanian": ("cp1257", "ąžuolas šuo žmogus mėnuo saulė ačiū knygų vištą įėjimas žuvų čia"),
}


@pytest.mark.parametrize("language", WORDS)
@pytest.mark.parametrize("price", ["", ";2,50 €"])
def test_windows_code_pages_are_recognised_beside_english(language, price):
    name, words = WORDS[language]
    text = "".join(f"some word;{word}{price}\n" for word in words.split())
    encoding = recognise(text.encode(name), Path("words.csv"))
    assert text.encode(name).decode(encoding.name) == text
    assert encoding.name == name


@pytest.mark.parametrize("language", ["German", "French", "Turkish", "Polish", "Czech"])
def test_words_in_capitals_are_recognised(language):
    name, words = WORDS[language]
    text = "".join(f"some word;{word}\n" for word in words.replace("ß", "ss").upper().split())
    assert text.encode(name).decode(recognise(text.encode(name), Path("a")).name) == text


def test_the_example_differs_in_the_second_best_encoding():
    turkish = "".join(f"word;{word}\n" for word in WORDS["Turkish"][1].split())
    encoding = recognise(f"Arbëreshë;Arnavutça\n{turkish}".encode("cp1254"), Path("names.csv"))
    assert (encoding.name, encoding.example) == ("cp1254", "Doğu")


def test_two_western_languages_in_one_file():
    words = zip(WORDS["German"][1].split(), WORDS["French"][1].split(), strict=False)
    text = "".join(f"{german};{french}\n" for german, french in words)
    assert recognise(text.encode("cp1252"), Path("words.csv")).name == "cp1252"


def test_mac_roman_is_read_if_the_words_need_it():
    text = "".join(f"some word;{word}\n" for word in WORDS["German"][1].split())
    assert recognise(text.encode("mac_roman"), Path("words.csv")).name == "mac_roman"


@pytest.mark.parametrize("text", [GERMAN, GREEK, JAPANESE])
@pytest.mark.parametrize("name", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_unicode_is_certain(text, name):
    encoding = recognise(text.encode(name), Path("words.tsv"))
    assert encoding.is_certain
    assert text.encode(name).decode(encoding.name).removeprefix("\ufeff") == text


def test_few_lines_of_another_encoding_do_not_decide():
    lines = [b"sister city"] * 99 + [b"sister\xf0city"]
    assert recognise(b"\n".join(lines), Path("trec")) == UTF8
    assert recognise("Käse\nsüß\n".encode() + "Öl\n".encode("cp1252"), Path("a")) == UTF8


def test_few_lines_beyond_ascii_decide_if_none_is_utf8():
    names = ["Größe", "Håvard", "Aïssi", "Peña", "Günther"]
    lines = [b"a name"] * 500 + [name.encode("cp1252") for name in names]
    encoding = recognise(b"\n".join(lines), Path("packages.csv"))
    assert (encoding.name, encoding.example) == ("cp1252", "Håvard")
    assert recognise(b"\n".join([*lines, "Öl".encode()]), Path("packages.csv")) == UTF8


def test_bytes_without_words_are_rejected():
    content = b"\xff\xa4\xa4\xa4\xa4\n" * 20
    with raises(UserError):
        recognise(content, Path("words.tsv"))


def test_a_long_line_without_words_is_read_once():
    words = "Größe über schöne Häuser für Mädchen".encode("cp1252").split()
    line = b"x" * 4_000_000  # quadratic time would be hours
    assert recognise(b"\n".join([line, *words]), Path("words.txt")).name == "cp1252"


def test_encodings_are_named_as_in_python():
    assert named("utf8") == named("UTF-8-sig") == UTF8
    assert named("windows-1253").name == "cp1253"
    for wrong in ("klingon", "hex", "a\0b"):
        with pytest.raises(UserError, match=r"data.encoding is .*expected a name such as"):
            named(wrong)


def lines_of(path, content):
    path.write_bytes(content)
    corpus = read_pairs(path, settings=TableSettings())
    return {(pair.source, pair.target) for pair in corpus.pairs}, "; ".join(corpus.summary())


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("cp1252", "Schlüssel"),
        ("cp1250", "žluťoučký"),
        ("iso8859_2", "miesiąc"),
        ("koi8_r", "молоко"),
        ("cp932", "日本語の文章です"),
        ("gb18030", "今天天气很好"),
    ],
)
def test_lines_of_utf8_in_a_file_of_another_encoding_are_read_as_such(tmp_path, name, word):
    # Also the last line of a file whose first MiB has none.
    for number in (40, 60_000):
        others = "".join(f"key {n}\t{word} {n}\n" for n in range(number)).encode(name)
        content = others + "street\tStraße 街道\n".encode()
        read, summary = lines_of(tmp_path / "mixed.tsv", content)
        assert ("street", "Straße 街道") in read
        assert ("key 3", f"{word} 3") in read
        assert len(read) == number + 1
        assert f"read 1 line of {tmp_path}/mixed.tsv as UTF-8, unlike" in summary
        assert f"(line {number + 1})" in summary


def test_two_columns_may_have_different_encodings(tmp_path):
    rows = ["größer", "älter", "höher", "kürzer", "schöner", "müder", "süßer"]
    content = b"".join(f"{row}\t".encode() + f"{row}\n".encode("cp1252") for row in rows)
    read, summary = lines_of(tmp_path / "pasted.tsv", content)
    assert read == {(row, row) for row in rows}
    assert "7 lines of" in summary


def test_iso_8859_2_is_not_cp1250(tmp_path):
    words = "szkoła miesiąc łódź żółty święto ręka mąż dziękuję książka będę gęś śnieg"
    text = "".join(f"word {number}\t{word}\n" for number, word in enumerate(words.split()))
    encoding = recognise(text.encode("iso8859_2"), Path("a.tsv"))
    assert (encoding.name, encoding.example) == ("iso8859_2", "miesiąc")
    encoding = recognise(text.encode("cp1250"), Path("a.tsv"))
    assert (encoding.name, encoding.example) == ("cp1250", "miesiąc")


def test_legacy_lines_in_a_file_of_labels_are_listed(tmp_path):
    rows = [f"text {number},{'ja' if number % 2 else 'nein'}\n".encode() for number in range(90)]
    rows[7] = "“smart” quotes,ja\n".encode("cp1252")
    path = tmp_path / "labels.csv"
    path.write_bytes("text,label\nstraße,ja\n".encode() + b"".join(rows))
    corpus = read_labelled(path)
    assert "“smart” quotes" in {pair.source for pair in corpus.pairs}
    (summary,) = corpus.summary()
    assert summary == f"read 1 line of {path} as cp1252, because it is not UTF-8 (line 10)"


def test_the_name_of_a_mixed_encoding_is_an_encoding():
    encoding = named("cp1252+utf-8")
    assert (encoding.name, encoding.has_utf8, encoding.reading) == ("cp1252", True, "cp1252+utf-8")
