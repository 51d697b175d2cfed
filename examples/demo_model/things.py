"""Words of everyday life, by kind: what values are drawn from beside the big lists."""

CURRENCIES = (
    "EUR=euros,euro;USD=dollars,US dollars;GBP=pounds,British pounds;JPY=yen,Japanese yen;"
    "CHF=francs,Swiss francs;SEK=Swedish kronor;NOK=Norwegian kroner;DKK=Danish kroner;PLN=zloty;"
    "CZK=Czech crowns;HUF=forint;INR=rupees;CNY=yuan;AUD=Australian dollars;CAD=Canadian dollars;"
    "MXN=Mexican pesos;BRL=reais;TRY=Turkish lira;ZAR=rand;KRW=won"
)
LANGUAGE_CODES = (
    "en=English;de=German;fr=French;es=Spanish;it=Italian;pt=Portuguese;nl=Dutch;pl=Polish;"
    "sv=Swedish;da=Danish;fi=Finnish;cs=Czech;tr=Turkish;ja=Japanese;zh=Chinese;ko=Korean;"
    "ru=Russian;ar=Arabic;hi=Hindi;el=Greek"
)
THINGS: dict[str, str] = {
    "color": "red,blue,green,black,white,yellow,purple,orange,grey,pink,brown,dark blue",
    "room": "kitchen,bedroom,bathroom,living room,hallway,office,garage,basement,attic,kids room,"
    "dining room,guest room,study,corridor,laundry room",
    "door": "front door,back door,garage,garden gate,cellar door,balcony door,main entrance",
    "event": "dentist,team meeting,lunch with Anna,yoga class,birthday party,parents evening,job "
    "interview,football practice,book club,haircut,standup,project review,piano lesson,dinner",
    "task": "call the bank,buy milk,water the plants,pay the rent,feed the cat,take out the trash,"
    "send the report,book the tickets,wash the car,fix the bike,write to grandma,clean the oven,"
    "pick up the kids,renew my passport,return the books,check the oil,order new glasses",
    "sport": "running,swimming,cycling,tennis,yoga,rowing,hiking,climbing,boxing,football,skiing",
    "team": "Arsenal,Chelsea,Bayern,Real Madrid,Juventus,Ajax,Celtic,the Lakers,the Bulls,Porto,"
    "the Yankees,Benfica,Inter,Liverpool,the Giants,Dortmund",
    "league": "Premier League,Bundesliga,Serie A,La Liga,NBA,NHL,NFL,Eredivisie,Champions League",
    "doctor": "dentist,eye doctor,dermatologist,cardiologist,GP,surgeon,orthopedist,therapist",
    "medicine": "ibuprofen,aspirin,vitamin D,paracetamol,insulin,iron,magnesium,antibiotics",
    "poi": "pharmacy,supermarket,gas station,restaurant,cafe,bank,ATM,hospital,park,bakery,museum,"
    "post office,gym,bar,hotel,playground,car wash,bus stop",
    "job": "nurse,carpenter,data analyst,teacher,cook,web developer,driver,electrician,designer,"
    "plumber,accountant,project manager,baker,sales assistant,welder,translator",
    "genre": "thriller,comedy,romance,horror,science fiction,fantasy,crime,drama,history,western",
    "app": "Spotify,the calculator,Chrome,Firefox,Maps,the calendar,Photoshop,Excel,Slack,Zoom,"
    "the camera,Notes,Steam,Settings,WhatsApp",
    "device": "phone,tablet,laptop,watch,keys,headphones,wallet,backpack,camera,earbuds",
    "food": "eggs,pasta,rice,tea,bread,milk,apples,bananas,cheese,butter,tomatoes,onions,coffee,"
    "chicken,salmon,potatoes,yoghurt,carrots,flour,sugar,olive oil,soup,salad,pizza,beans",
    "dish": "lasagna,pancakes,chili,sushi,paella,pad thai,goulash,risotto,tomato soup,apple pie,"
    "curry,tacos,moussaka,ratatouille,dumplings,fried rice,banana bread,falafel",
    "measure": "miles,kilometers,meters,feet,inches,centimeters,pounds,kilograms,grams,ounces,"
    "liters,gallons,cups,pints,yards,hectares,acres,knots",
    "garden": "roses,lawn,tomatoes,herbs,front beds,greenhouse,hedge,vegetable patch,pots",
    "petname": "Luna,Max,Bella,Rocky,Milo,Simba,Nala,Felix,Oscar,Daisy,Coco,Charlie",
    "roomname": "Everest,the blue room,Room 204,Orion,the big conference room,Atlantis,Lab 3",
}
